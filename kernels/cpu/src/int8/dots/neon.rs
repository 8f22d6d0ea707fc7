use std::arch::aarch64::*;

use burn_sparse_pattern::format::LEVELS;

use super::Dots;
use crate::simd::Neon;

/// NEON: four registers for every vector of 64 bytes. If `DOTPROD`, one instruction sums four products.
#[derive(Clone, Copy)]
pub(crate) struct NeonBytes<const DOTPROD: bool>;

/// Number of registers of a vector of 64 bytes; each holds the quads of four rows.
const PARTS: usize = 4;

impl<const DOTPROD: bool> Dots for NeonBytes<DOTPROD> {
    type Floats = Neon;
    type Sums = [int32x4_t; PARTS];
    type Bytes = [int8x16_t; PARTS];
    type Table = uint8x16x4_t;
    type Index = [uint8x16_t; PARTS];
    const TOKENS: usize = 2;
    const WAITS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: callers run with NEON, and with `dotprod` if `DOTPROD` (see `Dots`). This also holds for every method
        // below, where the caller also guarantees the pointers.
        unsafe { [vdupq_n_s32(0); PARTS] }
    }
    #[inline(always)]
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums {
        // Unrolled by hand, here and below: arrays that are indexed in a loop stay in memory.
        // SAFETY: as in `zero`.
        let sum = |part: usize| unsafe { vaddq_s32(a[part], b[part]) };
        [sum(0), sum(1), sum(2), sum(3)]
    }
    #[inline(always)]
    unsafe fn scaled(to: *mut f32, sums: Self::Sums, scale: f32) {
        for (part, sums) in sums.into_iter().enumerate() {
            // SAFETY: as in `zero`.
            unsafe {
                let to = to.add(4 * part);
                vst1q_f32(to, vfmaq_n_f32(vld1q_f32(to), vcvtq_f32_s32(sums), scale));
            }
        }
    }
    #[inline(always)]
    unsafe fn inputs(from: *const u8) -> Self::Bytes {
        // SAFETY: as in `zero`.
        unsafe { [vreinterpretq_s8_s32(vdupq_n_s32(from.cast::<i32>().read_unaligned())); PARTS] }
    }
    #[inline(always)]
    unsafe fn table(from: *const u8) -> Self::Table {
        // SAFETY: as in `zero`.
        unsafe { vld1q_u8_x4(from) }
    }
    #[inline(always)]
    unsafe fn index<const PERIOD: usize>(from: *const u8) -> Self::Index {
        // SAFETY: as in `zero`; an index holds four bytes for each group.
        unsafe {
            match PERIOD {
                1 => {
                    [vreinterpretq_u8_u32(vdupq_n_u32(from.cast::<u32>().read_unaligned())); PARTS]
                }
                2 => {
                    [vreinterpretq_u8_u64(vdupq_n_u64(from.cast::<u64>().read_unaligned())); PARTS]
                }
                4 => [vld1q_u8(from); PARTS],
                8 => {
                    let (a, b) = (vld1q_u8(from), vld1q_u8(from.add(16)));
                    [a, b, a, b]
                }
                _ => [
                    vld1q_u8(from),
                    vld1q_u8(from.add(16)),
                    vld1q_u8(from.add(32)),
                    vld1q_u8(from.add(48)),
                ],
            }
        }
    }
    #[inline(always)]
    unsafe fn look_up<const PERIOD: usize>(table: Self::Table, index: Self::Index) -> Self::Bytes {
        // SAFETY: as in `zero`.
        let found = |part: usize| unsafe { vreinterpretq_s8_u8(vqtbl4q_u8(table, index[part])) };
        match PERIOD {
            1 | 2 | 4 => [found(0); PARTS],
            8 => {
                let (a, b) = (found(0), found(1));
                [a, b, a, b]
            }
            _ => [found(0), found(1), found(2), found(3)],
        }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Bytes, weights: *const i8) -> Self::Sums {
        // SAFETY: as in `zero`.
        let part = |part: usize| unsafe {
            multiply_add::<DOTPROD>(sums[part], inputs[part], vld1q_s8(weights.add(16 * part)))
        };
        [part(0), part(1), part(2), part(3)]
    }
    #[inline(always)]
    unsafe fn dot_codes(sums: Self::Sums, inputs: Self::Bytes, codes: *const u8) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe {
            let (levels, codes) =
                (vld1q_s8(LEVELS.as_ptr()), [vld1q_u8(codes), vld1q_u8(codes.add(16))]);
            let lower = |at: usize| vqtbl1q_s8(levels, vandq_u8(codes[at], vdupq_n_u8(0xf)));
            let upper = |at: usize| vqtbl1q_s8(levels, vshrq_n_u8::<4>(codes[at]));
            let part =
                |part: usize, weights| multiply_add::<DOTPROD>(sums[part], inputs[part], weights);
            [part(0, lower(0)), part(1, lower(1)), part(2, upper(0)), part(3, upper(1))]
        }
    }
    #[inline(always)]
    unsafe fn quantize(from: *const f32, inverse: f32, to: *mut u8) {
        // SAFETY: as in `zero`. The rounding is to nearest, ties to even.
        unsafe {
            let rounded = |at: usize| {
                vqmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(from.add(at)), inverse)))
            };
            let low = vqmovn_s16(vcombine_s16(rounded(0), rounded(4)));
            let high = vqmovn_s16(vcombine_s16(rounded(8), rounded(12)));
            vst1q_s8(to.cast(), vcombine_s8(low, high));
        }
    }
}

/// Adds to every i32 the products of its quad.
#[inline(always)]
unsafe fn multiply_add<const DOTPROD: bool>(
    sums: int32x4_t,
    inputs: int8x16_t,
    weights: int8x16_t,
) -> int32x4_t {
    // SAFETY: the caller runs with NEON, and with `dotprod` if `DOTPROD`.
    unsafe {
        match DOTPROD {
            true => sdot(sums, inputs, weights),
            false => widened(sums, inputs, weights),
        }
    }
}

/// Same as [`multiply_add`], in one instruction.
#[inline(always)]
unsafe fn sdot(mut sums: int32x4_t, inputs: int8x16_t, weights: int8x16_t) -> int32x4_t {
    // SAFETY: the caller runs with `dotprod`. Its intrinsic is not stable in Rust 1.95.
    unsafe {
        std::arch::asm!(
            ".arch_extension dotprod",
            "sdot {sums:v}.4s, {inputs:v}.16b, {weights:v}.16b",
            sums = inout(vreg) sums,
            inputs = in(vreg) inputs,
            weights = in(vreg) weights,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

/// Same as [`multiply_add`], on CPUs before Armv8.4.
#[inline(always)]
unsafe fn widened(sums: int32x4_t, inputs: int8x16_t, weights: int8x16_t) -> int32x4_t {
    // SAFETY: the caller runs with NEON.
    unsafe {
        let low = vpaddlq_s16(vmull_s8(vget_low_s8(inputs), vget_low_s8(weights)));
        let high = vpaddlq_s16(vmull_high_s8(inputs, weights));
        vaddq_s32(sums, vpaddq_s32(low, high))
    }
}
