use super::{Simd, four};

/// Scalar fallback for CPUs without a supported vector instruction set, and for Miri.
#[derive(Clone, Copy)]
pub(crate) struct Scalar;

// SAFETY (all methods): the caller guarantees the pointers.
impl Simd for Scalar {
    type F = [f32; 4];
    const LANES: usize = 4;
    const MAX_VECTORS: usize = 2;
    const GROUPED_VECTORS: usize = 2;
    const TALL: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self::F {
        [0.0; 4]
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        [value; 4]
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::F {
        // SAFETY: the four floats at `from` are valid, possibly unaligned.
        unsafe { from.cast::<[f32; 4]>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Self::F) {
        // SAFETY: the four floats at `to` are valid, possibly unaligned.
        unsafe { to.cast::<[f32; 4]>().write_unaligned(value) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // Avoids `mul_add`, which is a library call on CPUs without the instruction.
        std::array::from_fn(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }

    #[inline(always)]
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F {
        std::array::from_fn(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn scale(x: Self::F, n: Self::F) -> Self::F {
        std::array::from_fn(|i| x[i] * f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }

    type Index = ();

    #[inline(always)]
    unsafe fn gather_bytes(from: *const f32, bytes: *const u8) -> Self::F {
        // SAFETY: guaranteed by the caller.
        unsafe { four::gather_bytes(from, bytes) }
    }
    #[inline(always)]
    unsafe fn gather_columns(from: *const f32, columns: *const i32) -> Self::F {
        // SAFETY: guaranteed by the caller.
        unsafe { four::gather_columns(from, columns) }
    }
}
