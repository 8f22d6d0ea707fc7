use half::{bf16, f16};

use super::simd::Simd;

/// Storage type of a kept value. Sums are f32 for every type: 16-bit values halve the bytes that a weight streams, not
/// the arithmetic.
pub(crate) trait Value: Copy + Send + Sync + 'static {
    /// `true` if values are stored in the type in which kernels compute, f32.
    const IS_F32: bool = false;

    /// Reads `LANES` values.
    ///
    /// # Safety
    /// Same as for [`Simd::load`].
    unsafe fn load<S: Simd>(from: *const Self) -> S::F;

    /// Converts the value to f32, which represents it exactly.
    fn widen(self) -> f32;
}

impl Value for f32 {
    const IS_F32: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const Self) -> S::F {
        // SAFETY: guaranteed by the caller.
        unsafe { S::load(from) }
    }

    fn widen(self) -> f32 {
        self
    }
}

impl Value for bf16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const Self) -> S::F {
        // SAFETY: guaranteed by the caller.
        unsafe { S::load_bf16(from) }
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Value for f16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const Self) -> S::F {
        // SAFETY: guaranteed by the caller.
        unsafe { S::load_f16(from) }
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// Returns a pointer to `values` in f32: to the values themselves, or to `buffer`, which must hold at least as many
/// floats, after widening them into it.
#[inline(always)]
pub(crate) fn widened<S: Simd, V: Value>(values: &[V], buffer: &mut [f32]) -> *const f32 {
    if V::IS_F32 {
        return values.as_ptr().cast();
    }
    let buffer = &mut buffer[..values.len()];
    let (mut from, mut to) = (values.chunks_exact(S::LANES), buffer.chunks_exact_mut(S::LANES));
    for (from, to) in (&mut from).zip(&mut to) {
        // SAFETY: both chunks are one vector long, and the caller runs on a CPU that supports `S`.
        unsafe { S::store(to.as_mut_ptr(), V::load::<S>(from.as_ptr())) };
    }
    for (from, to) in from.remainder().iter().zip(to.into_remainder()) {
        *to = from.widen();
    }
    buffer.as_ptr()
}
