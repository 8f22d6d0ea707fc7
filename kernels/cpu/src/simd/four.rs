//! Gathering for sets of four lanes that have no instruction for it.

/// Returns the floats at four indices of one byte.
///
/// # Safety
/// `bytes` must hold four indices, and there must be floats at them, relative to `from`.
#[inline(always)]
pub(super) unsafe fn gather_bytes(from: *const f32, bytes: *const u8) -> [f32; 4] {
    // SAFETY: guaranteed by the caller.
    let bytes = unsafe { bytes.cast::<[u8; 4]>().read_unaligned() };
    // SAFETY: as above.
    bytes.map(|at| unsafe { *from.add(usize::from(at)) })
}

/// Returns the floats at four columns.
///
/// # Safety
/// `columns` must hold four columns, and there must be floats at them, relative to `from`.
#[inline(always)]
pub(super) unsafe fn gather_columns(from: *const f32, columns: *const i32) -> [f32; 4] {
    // SAFETY: guaranteed by the caller.
    let columns = unsafe { columns.cast::<[u32; 4]>().read_unaligned() };
    // SAFETY: as above.
    columns.map(|at| unsafe { *from.add(at as usize) })
}
