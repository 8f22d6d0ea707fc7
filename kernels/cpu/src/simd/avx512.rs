use std::arch::x86_64::*;

use half::{bf16, f16};

use super::Simd;

/// AVX-512 F, BW, DQ, VL: 32 registers of 16 floats.
#[derive(Clone, Copy)]
pub(crate) struct Avx512;

impl Simd for Avx512 {
    type F = __m512;
    const LANES: usize = 16;
    const MAX_VECTORS: usize = 4;
    const GROUPED_VECTORS: usize = 3;
    const TALL: usize = 8;

    #[inline(always)]
    unsafe fn zero() -> Self::F {
        // SAFETY: callers run with these AVX-512 sets (see `Simd`). This also holds for every method below, where the
        // caller also guarantees the pointers.
        unsafe { _mm512_setzero_ps() }
    }
    #[inline(always)]
    unsafe fn splat(value: f32) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_set1_ps(value) }
    }
    #[inline(always)]
    unsafe fn splats(from: *const f32) -> [Self::F; 4] {
        // SAFETY: as in `zero`.
        unsafe {
            let four = opaque(_mm512_broadcast_f32x4(_mm_loadu_ps(from)));
            [
                _mm512_permute_ps::<0b00_00_00_00>(four),
                _mm512_permute_ps::<0b01_01_01_01>(four),
                _mm512_permute_ps::<0b10_10_10_10>(four),
                _mm512_permute_ps::<0b11_11_11_11>(four),
            ]
        }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_loadu_ps(from) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut f32, value: Self::F) {
        // SAFETY: as in `zero`.
        unsafe { _mm512_storeu_ps(to, value) }
    }
    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self::F {
        // SAFETY: as in `zero`; lanes past `count` are not read.
        unsafe { _mm512_maskz_loadu_ps(first(count), from) }
    }
    #[inline(always)]
    unsafe fn store_first(to: *mut f32, value: Self::F, count: usize) {
        // SAFETY: as in `zero`; lanes past `count` are not written.
        unsafe { _mm512_mask_storeu_ps(to, first(count), value) }
    }
    #[inline(always)]
    unsafe fn fma(a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_fmadd_ps(a, b, c) }
    }
    #[inline(always)]
    unsafe fn add(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_add_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn max(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_max_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn prefetch(at: *const f32) {
        // SAFETY: as in `zero`; a prefetch reads nothing.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
    }

    #[inline(always)]
    unsafe fn min(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_min_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn div(a: Self::F, b: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_div_ps(a, b) }
    }
    #[inline(always)]
    unsafe fn scale(x: Self::F, n: Self::F) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_scalef_ps(x, n) }
    }

    #[inline(always)]
    unsafe fn load_bf16(from: *const bf16) -> Self::F {
        // SAFETY: as in `zero`. A bf16 is the upper half of its f32.
        unsafe {
            let words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(words))
        }
    }
    #[inline(always)]
    unsafe fn load_f16(from: *const f16) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(from.cast())) }
    }

    #[inline(always)]
    unsafe fn transpose(from: *const f32, from_stride: usize, to: *mut f32, to_stride: usize) {
        // SAFETY: as in `zero`; the blocks hold 16 rows of 16 floats at their strides.
        unsafe {
            // Quads of rows: the 128-bit quarter `l` of `quads[4q + c]` holds column `4l + c` of the rows `4q..4q + 4`.
            let mut quads = [_mm512_setzero_ps(); 16];
            for q in 0..4 {
                let rows = from.add(4 * q * from_stride);
                let r0 = _mm512_loadu_ps(rows);
                let r1 = _mm512_loadu_ps(rows.add(from_stride));
                let r2 = _mm512_loadu_ps(rows.add(2 * from_stride));
                let r3 = _mm512_loadu_ps(rows.add(3 * from_stride));
                let lo = _mm512_castps_pd(_mm512_unpacklo_ps(r0, r1));
                let hi = _mm512_castps_pd(_mm512_unpackhi_ps(r0, r1));
                let lo2 = _mm512_castps_pd(_mm512_unpacklo_ps(r2, r3));
                let hi2 = _mm512_castps_pd(_mm512_unpackhi_ps(r2, r3));
                quads[4 * q] = _mm512_castpd_ps(_mm512_unpacklo_pd(lo, lo2));
                quads[4 * q + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(lo, lo2));
                quads[4 * q + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(hi, hi2));
                quads[4 * q + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(hi, hi2));
            }
            for c in 0..4 {
                // Selects quarters 0 and 2 of two quads (0x88), or 1 and 3 (0xdd), then does the same again.
                let even = _mm512_shuffle_f32x4::<0x88>(quads[c], quads[4 + c]);
                let odd = _mm512_shuffle_f32x4::<0xdd>(quads[c], quads[4 + c]);
                let even2 = _mm512_shuffle_f32x4::<0x88>(quads[8 + c], quads[12 + c]);
                let odd2 = _mm512_shuffle_f32x4::<0xdd>(quads[8 + c], quads[12 + c]);
                let columns = [
                    _mm512_shuffle_f32x4::<0x88>(even, even2),
                    _mm512_shuffle_f32x4::<0x88>(odd, odd2),
                    _mm512_shuffle_f32x4::<0xdd>(even, even2),
                    _mm512_shuffle_f32x4::<0xdd>(odd, odd2),
                ];
                for (l, column) in columns.into_iter().enumerate() {
                    _mm512_storeu_ps(to.add((4 * l + c) * to_stride), column);
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn sums(vectors: &[Self::F; 16]) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe {
            // Each quarter of a quad holds four partial sums, of four vectors.
            let mut quads = [_mm512_setzero_ps(); 4];
            for (quad, four) in quads.iter_mut().zip(vectors.chunks_exact(4)) {
                let low = pairs(four[0], four[1]);
                let high = pairs(four[2], four[3]);
                let (low, high) = (_mm512_castps_pd(low), _mm512_castps_pd(high));
                let even = _mm512_castpd_ps(_mm512_unpacklo_pd(low, high));
                let odd = _mm512_castpd_ps(_mm512_unpackhi_pd(low, high));
                *quad = _mm512_add_ps(even, odd);
            }
            quarters(quarters(quads[0], quads[1]), quarters(quads[2], quads[3]))
        }
    }

    type Index = __m512i;

    #[inline(always)]
    unsafe fn in_block(from: *const u8) -> Self::Index {
        // SAFETY: as in `zero`; `from` holds 16 bytes.
        unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn gather_bytes(from: *const f32, bytes: *const u8) -> Self::F {
        // SAFETY: as in `zero`; there are 16 indices, and the caller guarantees the floats at them.
        unsafe { _mm512_i32gather_ps::<4>(Self::in_block(bytes), from) }
    }
    #[inline(always)]
    unsafe fn gather_columns(from: *const f32, columns: *const i32) -> Self::F {
        // SAFETY: as in `zero`; there are 16 columns, and the caller guarantees the floats at them.
        unsafe { _mm512_i32gather_ps::<4>(_mm512_loadu_si512(columns.cast()), from) }
    }

    const TABLE_REGISTERS: usize = 16;

    #[inline(always)]
    unsafe fn look_up(low: Self::F, high: Self::F, index: Self::Index) -> Self::F {
        // SAFETY: as in `zero`; only five bits of an index are used.
        unsafe { _mm512_permutex2var_ps(low, index, high) }
    }
    #[inline(always)]
    unsafe fn choose(low: Self::F, high: Self::F, index: Self::Index, bit: i32) -> Self::F {
        // SAFETY: as in `zero`.
        unsafe {
            let lanes = _mm512_test_epi32_mask(index, _mm512_set1_epi32(bit));
            _mm512_mask_blend_ps(lanes, low, high)
        }
    }
}

/// Returns the same vector but hides its origin from the compiler, which otherwise turns every permutation of a loaded
/// vector into a separate load. The row kernels are limited by their loads.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut vector: __m512) -> __m512 {
    // SAFETY: no instruction is executed.
    unsafe {
        std::arch::asm!("/* {0} */", inout(zmm_reg) vector, options(pure, nomem, nostack, preserves_flags));
    }
    vector
}

/// Returns the mask of the first `count` of 16 lanes.
#[inline(always)]
fn first(count: usize) -> __mmask16 {
    ((1_u32 << count) - 1) as __mmask16
}

/// Returns sums of neighbours in every quarter: `a0 + a2, b0 + b2, a1 + a3, b1 + b3`.
#[inline(always)]
unsafe fn pairs(a: __m512, b: __m512) -> __m512 {
    // SAFETY: callers run with AVX-512 F.
    unsafe { _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b)) }
}

/// Returns sums of neighbouring quarters: `a0 + a1, a2 + a3, b0 + b1, b2 + b3`.
#[inline(always)]
unsafe fn quarters(a: __m512, b: __m512) -> __m512 {
    // SAFETY: as in `pairs`.
    unsafe {
        let even = _mm512_shuffle_f32x4::<0x88>(a, b);
        let odd = _mm512_shuffle_f32x4::<0xdd>(a, b);
        _mm512_add_ps(even, odd)
    }
}
