use std::arch::x86_64::*;

use burn_sparse_pattern::format::LEVELS;

use super::Dots;
use crate::simd::Avx512;

/// Offset added to inputs, as a power of two: it flips their sign bit.
const OFFSET: u32 = 7;

/// AVX-512 with VNNI, VBMI and VBMI2 (Ice Lake, Zen 4, and newer).
#[derive(Clone, Copy)]
pub(crate) struct Vnni;

impl Dots for Vnni {
    type Floats = Avx512;
    type Sums = __m512i;
    type Bytes = __m512i;
    type Table = __m512i;
    type Index = __m512i;
    const TOKENS: usize = 8;
    const WAITS: bool = true;
    const EXPANDS: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: callers run with these sets (see `Dots`). This also holds for every method below, where the caller also
        // guarantees the pointers.
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn start(from: *const i16) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe {
            let sums = _mm512_cvtepi16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_sub_epi32(_mm512_setzero_si512(), _mm512_slli_epi32::<OFFSET>(sums))
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe { _mm512_add_epi32(a, b) }
    }
    #[inline(always)]
    unsafe fn scaled(to: *mut f32, sums: Self::Sums, scale: f32) {
        // SAFETY: as in `zero`.
        unsafe {
            let (sums, scale) = (_mm512_cvtepi32_ps(sums), _mm512_set1_ps(scale));
            _mm512_storeu_ps(to, _mm512_fmadd_ps(sums, scale, _mm512_loadu_ps(to)));
        }
    }
    #[inline(always)]
    unsafe fn inputs(from: *const u8) -> Self::Bytes {
        // SAFETY: as in `zero`.
        unsafe { _mm512_set1_epi32(from.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn table(from: *const u8) -> Self::Table {
        // SAFETY: as in `zero`.
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn index<const PERIOD: usize>(from: *const u8) -> Self::Index {
        // SAFETY: as in `zero`.
        unsafe {
            match PERIOD {
                1 => _mm512_set1_epi32(from.cast::<i32>().read_unaligned()),
                2 => _mm512_set1_epi64(from.cast::<i64>().read_unaligned()),
                4 => _mm512_broadcast_i32x4(_mm_loadu_si128(from.cast())),
                8 => _mm512_broadcast_i64x4(_mm256_loadu_si256(from.cast())),
                _ => _mm512_loadu_si512(from.cast()),
            }
        }
    }
    #[inline(always)]
    unsafe fn look_up<const PERIOD: usize>(table: Self::Table, index: Self::Index) -> Self::Bytes {
        // SAFETY: as in `zero`.
        unsafe { _mm512_permutexvar_epi8(index, table) }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Bytes, weights: *const i8) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe { _mm512_dpbusd_epi32(sums, inputs, _mm512_loadu_si512(weights.cast())) }
    }
    #[inline(always)]
    unsafe fn dot_codes(sums: Self::Sums, inputs: Self::Bytes, codes: *const u8) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe {
            let levels = _mm512_broadcast_i32x4(_mm_loadu_si128(LEVELS.as_ptr().cast()));
            let codes = _mm256_loadu_si256(codes.cast());
            let upper = _mm256_srli_epi16::<4>(codes);
            let both = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(codes), upper);
            let both = _mm512_and_si512(both, _mm512_set1_epi8(0xf));
            _mm512_dpbusd_epi32(sums, inputs, _mm512_shuffle_epi8(levels, both))
        }
    }
    #[inline(always)]
    unsafe fn dot_bytes(sums: Self::Sums, inputs: Self::Bytes, weights: Self::Bytes) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe { _mm512_dpbusd_epi32(sums, inputs, weights) }
    }
    #[inline(always)]
    unsafe fn expand(mask: u64, from: *const u8) -> Self::Bytes {
        // SAFETY: as in `zero`.
        unsafe {
            let sign = _mm512_set1_epi8(-128);
            _mm512_maskz_expand_epi8(mask, _mm512_xor_si512(_mm512_loadu_si512(from.cast()), sign))
        }
    }
    #[inline(always)]
    unsafe fn expand_codes(mask: u64, from: *const u8, upper: bool) -> Self::Bytes {
        // SAFETY: as in `zero`.
        unsafe {
            let levels = _mm512_broadcast_i32x4(_mm_loadu_si128(LEVELS.as_ptr().cast()));
            let codes = _mm512_loadu_si512(from.cast());
            let codes = if upper { _mm512_srli_epi16::<4>(codes) } else { codes };
            let codes = _mm512_and_si512(codes, _mm512_set1_epi8(0xf));
            _mm512_maskz_expand_epi8(mask, _mm512_shuffle_epi8(levels, codes))
        }
    }
    #[inline(always)]
    unsafe fn store(bytes: Self::Bytes, to: *mut i8) {
        // SAFETY: as in `zero`.
        unsafe { _mm512_storeu_si512(to.cast(), bytes) }
    }
    #[inline(always)]
    unsafe fn quantize(from: *const f32, inverse: f32, to: *mut u8) {
        // SAFETY: as in `zero`. Flipping the sign bit adds the offset, because `vpdpbusd` takes unsigned inputs.
        unsafe {
            let scaled = _mm512_mul_ps(_mm512_loadu_ps(from), _mm512_set1_ps(inverse));
            let bytes = _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(scaled));
            _mm_storeu_si128(to.cast(), _mm_xor_si128(bytes, _mm_set1_epi8(-128)));
        }
    }
}
