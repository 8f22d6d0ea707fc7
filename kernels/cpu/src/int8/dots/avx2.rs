use std::arch::x86_64::*;

use burn_sparse_pattern::format::LEVELS;

use super::{Dots, HALF};
use crate::simd::Avx2;

/// AVX2: two registers for every vector of 64 bytes. If `VNNI`, uses the dot products of AVX-VNNI, which multiply unsigned by
/// signed bytes: inputs are then 128 larger.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Bytes<const VNNI: bool>;

impl<const VNNI: bool> Dots for Avx2Bytes<VNNI> {
    type Floats = Avx2;
    type Sums = [__m256i; 2];
    type Bytes = [__m256i; 2];
    type Table = *const u8;
    type Index = [__m256i; 2];
    const TOKENS: usize = 1;
    const WAITS: bool = false;
    const HALVES: bool = true;

    #[inline(always)]
    unsafe fn zero() -> Self::Sums {
        // SAFETY: callers run with AVX2 (see `Dots`). This also holds for every method below, where the caller also
        // guarantees the pointers.
        unsafe { [_mm256_setzero_si256(); 2] }
    }
    #[inline(always)]
    unsafe fn start(from: *const i16) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe {
            let mut sums = Self::zero();
            if VNNI {
                for (half, sums) in sums.iter_mut().enumerate() {
                    let weights = _mm256_cvtepi16_epi32(_mm_loadu_si128(from.add(8 * half).cast()));
                    *sums = _mm256_sub_epi32(*sums, _mm256_slli_epi32::<7>(weights));
                }
            }
            sums
        }
    }
    #[inline(always)]
    unsafe fn add(a: Self::Sums, b: Self::Sums) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe { [_mm256_add_epi32(a[0], b[0]), _mm256_add_epi32(a[1], b[1])] }
    }
    #[inline(always)]
    unsafe fn scaled(to: *mut f32, sums: Self::Sums, scale: f32) {
        // SAFETY: as in `zero`.
        unsafe {
            let scale = _mm256_set1_ps(scale);
            for (half, sums) in sums.into_iter().enumerate() {
                let to = to.add(8 * half);
                let sums = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), scale, _mm256_loadu_ps(to));
                _mm256_storeu_ps(to, sums);
            }
        }
    }
    #[inline(always)]
    unsafe fn inputs(from: *const u8) -> Self::Bytes {
        // SAFETY: as in `zero`.
        unsafe { [_mm256_set1_epi32(from.cast::<i32>().read_unaligned()); 2] }
    }
    #[inline(always)]
    unsafe fn table(from: *const u8) -> Self::Table {
        from
    }
    #[inline(always)]
    unsafe fn index<const PERIOD: usize>(from: *const u8) -> Self::Index {
        // SAFETY: as in `zero`; an index holds four bytes for each group.
        unsafe {
            match PERIOD {
                1 => [_mm256_set1_epi32(from.cast::<i32>().read_unaligned()); 2],
                2 => [_mm256_set1_epi64x(from.cast::<i64>().read_unaligned()); 2],
                4 => [_mm256_broadcastsi128_si256(_mm_loadu_si128(from.cast())); 2],
                8 => [_mm256_loadu_si256(from.cast()); 2],
                _ => halves(from),
            }
        }
    }
    #[inline(always)]
    unsafe fn look_up<const PERIOD: usize>(table: Self::Table, index: Self::Index) -> Self::Bytes {
        // SAFETY: as in `zero`. Both registers of an index are equal, except for 16 groups.
        unsafe {
            let low = among_64(table, index[0]);
            [low, if PERIOD == 16 { among_64(table, index[1]) } else { low }]
        }
    }
    #[inline(always)]
    unsafe fn look_up_half<const PERIOD: usize>(
        from: *const u8,
        index: Self::Index,
    ) -> Self::Bytes {
        // SAFETY: as in `look_up`.
        unsafe {
            let low = among_32(from, index[0]);
            [low, if PERIOD == 16 { among_32(from, index[1]) } else { low }]
        }
    }
    #[inline(always)]
    unsafe fn dot(sums: Self::Sums, inputs: Self::Bytes, weights: *const i8) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe { multiply_add::<VNNI>(sums, inputs, halves(weights.cast())) }
    }
    #[inline(always)]
    unsafe fn dot_codes(sums: Self::Sums, inputs: Self::Bytes, codes: *const u8) -> Self::Sums {
        // SAFETY: as in `zero`.
        unsafe {
            let levels = _mm256_broadcastsi128_si256(_mm_loadu_si128(LEVELS.as_ptr().cast()));
            let (codes, low) = (_mm256_loadu_si256(codes.cast()), _mm256_set1_epi8(0xf));
            let lower = _mm256_and_si256(codes, low);
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(codes), low);
            let weights = [_mm256_shuffle_epi8(levels, lower), _mm256_shuffle_epi8(levels, upper)];
            multiply_add::<VNNI>(sums, inputs, weights)
        }
    }
    #[inline(always)]
    unsafe fn quantize(from: *const f32, inverse: f32, to: *mut u8) {
        // SAFETY: as in `zero`.
        unsafe {
            let inverse = _mm256_set1_ps(inverse);
            let low = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from), inverse));
            let high = _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(from.add(8)), inverse));
            // Packing works on halves of registers, so the middle quarters are swapped.
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packs_epi32(low, high));
            let (low, high) = (_mm256_castsi256_si128(words), _mm256_extracti128_si256::<1>(words));
            let bytes = _mm_packs_epi16(low, high);
            let bytes = if VNNI { _mm_xor_si128(bytes, _mm_set1_epi8(i8::MIN)) } else { bytes };
            _mm_storeu_si128(to.cast(), bytes);
        }
    }
}

/// Adds the products of inputs and weights.
#[inline(always)]
unsafe fn multiply_add<const VNNI: bool>(
    sums: [__m256i; 2],
    inputs: [__m256i; 2],
    weights: [__m256i; 2],
) -> [__m256i; 2] {
    // SAFETY: the caller runs with AVX2, and AVX-VNNI if `VNNI`. Without it, the sign moves from the input to the weight: a pair
    // of products is at most 2 · 127², which an i16 holds.
    unsafe {
        let mut found = sums;
        for half in 0..2 {
            if VNNI {
                found[half] = _mm256_dpbusd_avx_epi32(sums[half], inputs[half], weights[half]);
                continue;
            }
            let magnitude = _mm256_abs_epi8(inputs[half]);
            let signed = _mm256_sign_epi8(weights[half], inputs[half]);
            let pairs = _mm256_maddubs_epi16(magnitude, signed);
            let quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
            found[half] = _mm256_add_epi32(sums[half], quads);
        }
        found
    }
}

/// Loads 64 bytes.
#[inline(always)]
unsafe fn halves(from: *const u8) -> [__m256i; 2] {
    // SAFETY: guaranteed by the caller.
    unsafe { [_mm256_loadu_si256(from.cast()), _mm256_loadu_si256(from.add(32).cast())] }
}

/// Looks up an input among 64 for every byte.
#[inline(always)]
unsafe fn among_64(table: *const u8, index: __m256i) -> __m256i {
    // SAFETY: guaranteed by the caller. Bit 5 decides between the halves, as bit 4 does within them.
    unsafe {
        let (low, high) = (among_32(table, index), among_32(table.add(HALF), index));
        _mm256_blendv_epi8(low, high, _mm256_slli_epi16::<2>(index))
    }
}

/// Looks up an input among 32 for every byte.
#[inline(always)]
unsafe fn among_32(table: *const u8, index: __m256i) -> __m256i {
    // SAFETY: guaranteed by the caller. A shuffle selects among 16 bytes by the four lowest bits; bit 4, moved to the sign
    // bit that a blend reads, decides between two shuffles.
    unsafe {
        let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.cast()));
        let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(table.add(16).cast()));
        _mm256_blendv_epi8(
            _mm256_shuffle_epi8(low, index),
            _mm256_shuffle_epi8(high, index),
            _mm256_slli_epi16::<3>(index),
        )
    }
}
