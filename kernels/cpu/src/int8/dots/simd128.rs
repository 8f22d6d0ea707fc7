use std::arch::wasm32::*;

use burn_sparse_pattern::format::LEVELS;

use super::{Dots, HALF};
use crate::simd::Simd128;

/// WebAssembly's 128-bit vectors: four registers for every vector of 64 bytes.
#[derive(Clone, Copy)]
pub(crate) struct Simd128Bytes;

/// Number of registers of a vector of 64 bytes; each holds the quads of four rows.
const PARTS: usize = 4;

impl Dots for Simd128Bytes {
    type Floats = Simd128;
    type Sums = [v128; PARTS];
    type Bytes = [v128; PARTS];
    type Table = *const u8;
    type Index = *const u8;
    const TOKENS: usize = 1;
    const WAITS: bool = false;
    const HALVES: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        [i32x4_splat(0); PARTS]
    }
    #[inline(always)]
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums {
        // Unrolled by hand, here and below: arrays that are indexed in a loop stay in memory.
        let sum = |part: usize| i32x4_add(a[part], b[part]);
        [sum(0), sum(1), sum(2), sum(3)]
    }
    #[inline(always)]
    unsafe fn scaled(to: *mut f32, sums: Self::Sums, scale: f32) {
        let scale = f32x4_splat(scale);
        for (part, sums) in sums.into_iter().enumerate() {
            // SAFETY: the caller guarantees the pointers, here and in every method below.
            unsafe {
                let to = to.add(4 * part).cast();
                let sums = f32x4_mul(f32x4_convert_i32x4(sums), scale);
                v128_store(to, f32x4_add(sums, v128_load(to)));
            }
        }
    }
    #[inline(always)]
    unsafe fn inputs(from: *const u8) -> Self::Bytes {
        // SAFETY: as in `scaled`.
        [unsafe { v128_load32_splat(from.cast()) }; PARTS]
    }
    #[inline(always)]
    unsafe fn table(from: *const u8) -> Self::Table {
        from
    }
    #[inline(always)]
    unsafe fn index<const PERIOD: usize>(from: *const u8) -> Self::Index {
        from
    }
    #[inline(always)]
    unsafe fn look_up<const PERIOD: usize>(table: Self::Table, index: Self::Index) -> Self::Bytes {
        // SAFETY: as in `scaled`. Inputs whose index is not in a half become zero there.
        let find = |index| unsafe {
            let high = i8x16_sub(index, u8x16_splat(HALF as u8));
            v128_or(among_32(table, index), among_32(table.add(HALF), high))
        };
        // SAFETY: as in `scaled`; an index holds four bytes for each group.
        unsafe { by_period::<PERIOD>(index, find) }
    }
    #[inline(always)]
    unsafe fn look_up_half<const PERIOD: usize>(
        from: *const u8,
        index: Self::Index,
    ) -> Self::Bytes {
        // SAFETY: as in `scaled`.
        let find = |index| unsafe { among_32(from, v128_and(index, u8x16_splat(HALF as u8 - 1))) };
        // SAFETY: as in `look_up`.
        unsafe { by_period::<PERIOD>(index, find) }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Bytes, weights: *const i8) -> Self::Sums {
        // SAFETY: as in `scaled`. Widening loads need fewer registers and instructions than loads of whole vectors.
        let part = |part: usize| unsafe {
            let from = weights.add(16 * part);
            let weights = [i16x8_load_extend_i8x8(from), i16x8_load_extend_i8x8(from.add(8))];
            dot(sums[part], inputs[part], weights)
        };
        [part(0), part(1), part(2), part(3)]
    }
    #[inline(always)]
    unsafe fn dot_codes(sums: Self::Sums, inputs: Self::Bytes, codes: *const u8) -> Self::Sums {
        // SAFETY: as in `scaled`.
        let (levels, codes) = unsafe {
            (v128_load(LEVELS.as_ptr().cast()), [0, 16].map(|at| v128_load(codes.add(at).cast())))
        };
        let part = |part: usize, codes| {
            let weights = i8x16_swizzle(levels, codes);
            let weights = [i16x8_extend_low_i8x16(weights), i16x8_extend_high_i8x16(weights)];
            dot(sums[part], inputs[part], weights)
        };
        let lower = |at: usize| v128_and(codes[at], u8x16_splat(0xf));
        let upper = |at: usize| u8x16_shr(codes[at], 4);
        [part(0, lower(0)), part(1, lower(1)), part(2, upper(0)), part(3, upper(1))]
    }
    #[inline(always)]
    unsafe fn quantize(from: *const f32, inverse: f32, to: *mut u8) {
        // SAFETY: as in `scaled`.
        unsafe {
            let rounded = |at: usize| {
                let scaled = f32x4_mul(v128_load(from.add(at).cast()), f32x4_splat(inverse));
                i32x4_trunc_sat_f32x4(f32x4_nearest(scaled))
            };
            let low = i16x8_narrow_i32x4(rounded(0), rounded(4));
            let high = i16x8_narrow_i32x4(rounded(8), rounded(12));
            v128_store(to.cast(), i8x16_narrow_i16x8(low, high));
        }
    }
}

/// Adds to every i32 the products of its quad, whose weights are i16.
#[inline(always)]
fn dot(sums: v128, inputs: v128, [low, high]: [v128; 2]) -> v128 {
    let low = i32x4_dot_i16x8(i16x8_extend_low_i8x16(inputs), low);
    let high = i32x4_dot_i16x8(i16x8_extend_high_i8x16(inputs), high);
    let even = i32x4_shuffle::<0, 2, 4, 6>(low, high);
    let odd = i32x4_shuffle::<1, 3, 5, 7>(low, high);
    i32x4_add(sums, i32x4_add(even, odd))
}

/// Looks up the inputs of all rows by indices of `PERIOD` groups, four each.
#[inline(always)]
unsafe fn by_period<const PERIOD: usize>(
    index: *const u8,
    find: impl Fn(v128) -> v128,
) -> [v128; PARTS] {
    // SAFETY: guaranteed by the caller.
    let found = |part: usize| find(unsafe { v128_load(index.add(16 * part).cast()) });
    match PERIOD {
        // SAFETY: as above.
        1 => [find(unsafe { v128_load32_splat(index.cast()) }); PARTS],
        // SAFETY: as above.
        2 => [find(unsafe { v128_load64_splat(index.cast()) }); PARTS],
        4 => [found(0); PARTS],
        8 => {
            let (a, b) = (found(0), found(1));
            [a, b, a, b]
        }
        _ => [found(0), found(1), found(2), found(3)],
    }
}

/// Looks up sixteen inputs among 32; those whose index is not below 32 become zero.
#[inline(always)]
unsafe fn among_32(table: *const u8, index: v128) -> v128 {
    // SAFETY: guaranteed by the caller. A swizzle returns zero for indices that are not below 16.
    unsafe {
        let low = i8x16_swizzle(v128_load(table.cast()), index);
        let high = i8x16_sub(index, u8x16_splat(16));
        v128_or(low, i8x16_swizzle(v128_load(table.add(16).cast()), high))
    }
}
