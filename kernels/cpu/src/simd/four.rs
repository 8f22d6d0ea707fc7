//! Indices for sets of four lanes that have no instruction to gather floats.

/// Reads four in-block indices.
///
/// # Safety
/// `from` must hold four bytes.
#[inline(always)]
pub(super) unsafe fn in_block(from: *const u8) -> [u32; 4] {
    // SAFETY: guaranteed by the caller.
    unsafe { from.cast::<[u8; 4]>().read_unaligned() }.map(u32::from)
}

/// Reads four column indices.
///
/// # Safety
/// `from` must hold four indices.
#[inline(always)]
pub(super) unsafe fn columns(from: *const i32) -> [u32; 4] {
    // SAFETY: guaranteed by the caller.
    unsafe { from.cast::<[u32; 4]>().read_unaligned() }
}

/// Returns the floats at the indices.
///
/// # Safety
/// There must be floats at the indices, relative to `from`.
#[inline(always)]
pub(super) unsafe fn gather(from: *const f32, index: [u32; 4]) -> [f32; 4] {
    // SAFETY: guaranteed by the caller.
    index.map(|i| unsafe { *from.add(i as usize) })
}
