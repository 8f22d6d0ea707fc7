use std::arch::wasm32::*;

use half::bf16;

use super::{Simd, four};

/// WebAssembly's 128-bit vectors: 4 floats, in 16 registers of an x86 machine.
#[derive(Clone, Copy)]
pub(crate) struct Simd128;

impl Simd for Simd128 {
    type F = v128;
    const LANES: usize = 4;
    const MAX_VECTORS: usize = 3;
    const GROUPED_VECTORS: usize = 3;
    const TALL: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self::F {
        f32x4_splat(0.0)
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        f32x4_splat(value)
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::F {
        // SAFETY: the caller guarantees the pointers, here and in every method below.
        unsafe { v128_load(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Self::F) {
        // SAFETY: as in `load`.
        unsafe { v128_store(to.cast(), value) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        f32x4_add(f32x4_mul(a, b), c)
    }
    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        f32x4_add(a, b)
    }
    #[inline(always)]
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F {
        // One instruction, unlike `f32x4_max`; returns its first operand if the comparison fails.
        f32x4_pmax(b, a)
    }

    #[inline(always)]
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F {
        f32x4_pmin(b, a)
    }
    #[inline(always)]
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F {
        f32x4_div(a, b)
    }
    #[inline(always)]
    unsafe fn scale(x: Self::F, n: Self::F) -> Self::F {
        let exponent = i32x4_add(i32x4_trunc_sat_f32x4(n), i32x4_splat(127));
        f32x4_mul(x, i32x4_shl(exponent, 23))
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self::F {
        // SAFETY: as in `load`. A bf16 is the upper half of its f32.
        unsafe { i32x4_shl(u32x4_load_extend_u16x4(from.cast()), 16) }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: the caller guarantees both blocks.
        unsafe {
            let row = |i: usize| v128_load(from.add(i * from_stride).cast());
            let columns = transposed([row(0), row(1), row(2), row(3)]);
            for (j, column) in columns.into_iter().enumerate() {
                v128_store(to.add(j * to_stride).cast(), column);
            }
        }
    }

    #[inline(always)]
    unsafe fn sums(vectors: &[Self::F; 16]) -> Self::F {
        let [a, b, c, d] = transposed([vectors[0], vectors[1], vectors[2], vectors[3]]);
        f32x4_add(f32x4_add(a, b), f32x4_add(c, d))
    }

    type Index = ();

    #[inline(always)]
    unsafe fn gather_bytes(from: *const f32, bytes: *const u8) -> Self::F {
        // SAFETY: guaranteed by the caller.
        let [a, b, c, d] = unsafe { four::gather_bytes(from, bytes) };
        f32x4(a, b, c, d)
    }
    #[inline(always)]
    unsafe fn gather_columns(from: *const f32, columns: *const i32) -> Self::F {
        // SAFETY: guaranteed by the caller.
        let [a, b, c, d] = unsafe { four::gather_columns(from, columns) };
        f32x4(a, b, c, d)
    }
}

#[inline(always)]
fn transposed([a, b, c, d]: [v128; 4]) -> [v128; 4] {
    let (low, high) = (i32x4_shuffle::<0, 4, 1, 5>(a, b), i32x4_shuffle::<2, 6, 3, 7>(a, b));
    let (lower, higher) = (i32x4_shuffle::<0, 4, 1, 5>(c, d), i32x4_shuffle::<2, 6, 3, 7>(c, d));
    [
        i64x2_shuffle::<0, 2>(low, lower),
        i64x2_shuffle::<1, 3>(low, lower),
        i64x2_shuffle::<0, 2>(high, higher),
        i64x2_shuffle::<1, 3>(high, higher),
    ]
}
