use burn::tensor::DType;
use half::{bf16, f16};

use super::simd::Simd;

/// Whether kernels read values of this type.
pub(crate) fn reads(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::F16)
}

/// How a kept value is stored. Sums are f32 whatever it is: 16 bits halve the bytes that a weight streams,
/// not the arithmetic.
pub(crate) trait Value: Copy + Send + Sync + 'static {
    /// Whether it is stored as kernels compute.
    const IS_F32: bool = false;

    /// Reads `LANES` values.
    ///
    /// # Safety
    /// As [`Simd::load`].
    unsafe fn load<S: Simd>(from: *const Self) -> S::F;

    /// The value in f32, which holds it exactly.
    fn widen(self) -> f32;
}

impl Value for f32 {
    const IS_F32: bool = true;

    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const Self) -> S::F {
        // SAFETY: passed on.
        unsafe { S::load(from) }
    }

    fn widen(self) -> f32 {
        self
    }
}

impl Value for bf16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const Self) -> S::F {
        // SAFETY: passed on.
        unsafe { S::load_bf16(from) }
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

impl Value for f16 {
    #[inline(always)]
    unsafe fn load<S: Simd>(from: *const Self) -> S::F {
        // SAFETY: passed on.
        unsafe { S::load_f16(from) }
    }

    fn widen(self) -> f32 {
        self.to_f32()
    }
}

/// `values` in f32: themselves, or widened into `buffer`, which then holds as many.
#[inline(always)]
pub(crate) fn widened<S: Simd, V: Value>(values: &[V], buffer: &mut [f32]) -> *const f32 {
    if V::IS_F32 {
        return values.as_ptr().cast();
    }
    let buffer = &mut buffer[..values.len()];
    let (mut from, mut to) = (values.chunks_exact(S::LANES), buffer.chunks_exact_mut(S::LANES));
    for (from, to) in (&mut from).zip(&mut to) {
        // SAFETY: both chunks are one vector long; the caller runs where `S` exists.
        unsafe { S::store(to.as_mut_ptr(), V::load::<S>(from.as_ptr())) };
    }
    for (from, to) in from.remainder().iter().zip(to.into_remainder()) {
        *to = from.widen();
    }
    buffer.as_ptr()
}
