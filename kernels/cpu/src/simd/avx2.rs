use std::arch::x86_64::*;

use half::{bf16, f16};

use super::Simd;

/// AVX2 with FMA and F16C: 16 registers of 8 floats.
#[derive(Clone, Copy)]
pub(crate) struct Avx2;

impl Simd for Avx2 {
    type F = __m256;
    const LANES: usize = 8;
    const MAX_VECTORS: usize = 3;
    // With three, four rows need all 16 registers, and the compiler keeps one of the sums in memory.
    const GROUPED_VECTORS: usize = 2;
    const TALL: usize = 4;

    #[inline(always)]
    unsafe fn zero() -> Self::F {
        // SAFETY: callers run with AVX2, FMA and F16C (see `Simd`). This also holds for every method below, where the
        // caller also guarantees the pointers.
        unsafe { _mm256_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn splats(from: *const f32) -> [Self::F; 4] {
        // SAFETY: as in `zero`.
        unsafe {
            let four = _mm_loadu_ps(from);
            let four = opaque(_mm256_set_m128(four, four));
            [
                _mm256_permute_ps::<0b00_00_00_00>(four),
                _mm256_permute_ps::<0b01_01_01_01>(four),
                _mm256_permute_ps::<0b10_10_10_10>(four),
                _mm256_permute_ps::<0b11_11_11_11>(four),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Self::F) {
        // SAFETY: as in `zero`.
        unsafe { _mm256_storeu_ps(to, value) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_max_ps(a, b) }
    }

    #[inline(always)]
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn scale(x: Self::F, n: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe {
            let exponent = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
            _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(exponent)))
        }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self::F {
        // SAFETY: as in `zero`. A bf16 is the upper half of its f32.
        unsafe {
            let words = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(words))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(from.cast())) }
    }

    #[inline(always)]
    unsafe fn prefetch(at: *const f32) {
        // SAFETY: as in `zero`; a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: as in `zero`; the blocks hold eight rows of eight floats at their strides.
        unsafe {
            let mut r = [_mm256_setzero_ps(); 8];
            for (i, r) in r.iter_mut().enumerate() {
                *r = _mm256_loadu_ps(from.add(i * from_stride));
            }
            // Interleaves pairs, then quads of rows; the 128-bit half `h` of a quad holds column `4h + c`.
            let mut q = [_mm256_setzero_ps(); 8];
            for i in 0..2 {
                let (lo, hi) = (
                    _mm256_unpacklo_ps(r[4 * i], r[4 * i + 1]),
                    _mm256_unpackhi_ps(r[4 * i], r[4 * i + 1]),
                );
                let (lo2, hi2) = (
                    _mm256_unpacklo_ps(r[4 * i + 2], r[4 * i + 3]),
                    _mm256_unpackhi_ps(r[4 * i + 2], r[4 * i + 3]),
                );
                q[4 * i] = _mm256_shuffle_ps::<0x44>(lo, lo2);
                q[4 * i + 1] = _mm256_shuffle_ps::<0xee>(lo, lo2);
                q[4 * i + 2] = _mm256_shuffle_ps::<0x44>(hi, hi2);
                q[4 * i + 3] = _mm256_shuffle_ps::<0xee>(hi, hi2);
            }
            for c in 0..4 {
                let low = _mm256_permute2f128_ps::<0x20>(q[c], q[4 + c]);
                let high = _mm256_permute2f128_ps::<0x31>(q[c], q[4 + c]);
                _mm256_storeu_ps(to.add(c * to_stride), low);
                _mm256_storeu_ps(to.add((4 + c) * to_stride), high);
            }
        }
    }

    #[inline(always)]
    unsafe fn sums(vectors: &[Self::F; 16]) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe {
            // Each half of a quad holds four partial sums, of four vectors.
            let mut quads = [_mm256_setzero_ps(); 2];
            for (quad, four) in quads.iter_mut().zip(vectors.chunks_exact(4)) {
                *quad = _mm256_hadd_ps(
                    _mm256_hadd_ps(four[0], four[1]),
                    _mm256_hadd_ps(four[2], four[3]),
                );
            }
            let low = _mm256_permute2f128_ps::<0x20>(quads[0], quads[1]);
            let high = _mm256_permute2f128_ps::<0x31>(quads[0], quads[1]);
            _mm256_add_ps(low, high)
        }
    }

    type Index = __m256i;

    #[inline(always)]
    unsafe fn in_block(from: *const u8) -> Self::Index {
        // SAFETY: as in `zero`; `from` holds eight bytes.
        unsafe { _mm256_cvtepu8_epi32(_mm_loadl_epi64(from.cast())) }
    }
    // Single loads take half the time of the gather instruction on Zen 3, with several indices to a load.
    #[inline(always)]
    unsafe fn gather_bytes(from: *const f32, bytes: *const u8) -> Self::F {
        // SAFETY: as in `zero`; there are eight indices, and the caller guarantees the floats at them.
        unsafe {
            let [low, high] = bytes.cast::<[u32; 2]>().read_unaligned();
            let low = four(from, low.to_le_bytes().map(usize::from));
            let high = four(from, high.to_le_bytes().map(usize::from));
            _mm256_set_m128(high, low)
        }
    }
    #[inline(always)]
    unsafe fn gather_columns(from: *const f32, columns: *const i32) -> Self::F {
        // SAFETY: as in `zero`; there are eight columns, and the caller guarantees the floats at them.
        unsafe {
            let [a, b, c, d] = columns.cast::<[u64; 4]>().read_unaligned();
            let low =
                [a as u32 as usize, (a >> 32) as usize, b as u32 as usize, (b >> 32) as usize];
            let high =
                [c as u32 as usize, (c >> 32) as usize, d as u32 as usize, (d >> 32) as usize];
            _mm256_set_m128(four(from, high), four(from, low))
        }
    }

    const TABLE_REGISTERS: usize = 8;

    #[inline(always)]
    unsafe fn look_up(low: Self::F, high: Self::F, index: Self::Index) -> Self::F {
        // SAFETY: as in `zero`; a permutation uses three bits of an index.
        unsafe {
            let low = _mm256_permutevar8x32_ps(low, index);
            let high = _mm256_permutevar8x32_ps(high, index);
            Self::choose(low, high, index, 8)
        }
    }
    #[inline(always)]
    unsafe fn choose(low: Self::F, high: Self::F, index: Self::Index, bit: i32) -> Self::F {
        // SAFETY: as in `zero`. A blend uses the highest bit of a lane.
        unsafe {
            let highest = _mm256_set1_epi32(bit.leading_zeros() as i32);
            let highest = _mm256_castsi256_ps(_mm256_sllv_epi32(index, highest));
            _mm256_blendv_ps(low, high, highest)
        }
    }
}

/// Returns the same vector but hides its origin from the compiler, which otherwise turns every permutation of a loaded
/// vector into a separate load. The row kernels are limited by their loads.
#[inline]
#[target_feature(enable = "avx")]
fn opaque(mut vector: __m256) -> __m256 {
    // SAFETY: no instruction is executed.
    unsafe {
        std::arch::asm!("/* {0} */", inout(ymm_reg) vector, options(pure, nomem, nostack, preserves_flags));
    }
    vector
}

/// Returns the floats at four indices.
#[inline]
#[target_feature(enable = "avx")]
unsafe fn four(from: *const f32, [a, b, c, d]: [usize; 4]) -> __m128 {
    // SAFETY: the caller guarantees the floats at the indices.
    unsafe {
        let one = _mm_load_ss(from.add(a));
        let two = _mm_insert_ps::<0x10>(one, _mm_load_ss(from.add(b)));
        let three = _mm_insert_ps::<0x20>(two, _mm_load_ss(from.add(c)));
        _mm_insert_ps::<0x30>(three, _mm_load_ss(from.add(d)))
    }
}
