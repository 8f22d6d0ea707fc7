use std::arch::aarch64::*;

use half::bf16;

use super::{Simd, four};

/// NEON: 32 registers of 4 floats.
#[derive(Clone, Copy)]
pub(crate) struct Neon;

impl Simd for Neon {
    type F = float32x4_t;
    const LANES: usize = 4;
    const MAX_VECTORS: usize = 4;
    const GROUPED_VECTORS: usize = 2;
    const TALL: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self::F {
        // SAFETY: every aarch64 CPU has NEON. This also holds for every method below, where the caller also guarantees
        // the pointers.
        unsafe { vdupq_n_f32(0.0) }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { vdupq_n_f32(value) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { vld1q_f32(from) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Self::F) {
        // SAFETY: as in `zero`.
        unsafe { vst1q_f32(to, value) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { vfmaq_f32(c, a, b) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { vaddq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { vmaxq_f32(a, b) }
    }

    #[inline(always)]
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { vminq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { vdivq_f32(a, b) }
    }
    #[inline(always)]
    unsafe fn scale(x: Self::F, n: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe {
            let exponent = vaddq_s32(vcvtnq_s32_f32(n), vdupq_n_s32(127));
            vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32::<23>(exponent)))
        }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self::F {
        // SAFETY: as in `zero`. A bf16 is the upper half of its f32.
        unsafe { vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(from.cast()))) }
    }

    #[inline(always)]
    unsafe fn sums(vectors: &[Self::F; 16]) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe {
            let low = vpaddq_f32(vectors[0], vectors[1]);
            vpaddq_f32(low, vpaddq_f32(vectors[2], vectors[3]))
        }
    }

    type Index = ();

    #[inline(always)]
    unsafe fn gather_bytes(from: *const f32, bytes: *const u8) -> Self::F {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::load(four::gather_bytes(from, bytes).as_ptr()) }
    }
    #[inline(always)]
    unsafe fn gather_columns(from: *const f32, columns: *const i32) -> Self::F {
        // SAFETY: guaranteed by the caller.
        unsafe { Self::load(four::gather_columns(from, columns).as_ptr()) }
    }
}
