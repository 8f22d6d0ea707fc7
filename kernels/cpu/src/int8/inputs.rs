//! Inputs in bytes: every stretch of every token has a scale, which its largest input determines.

use super::dots::{ByteIsa, ByteWork, CHUNK, Dots, MOST, STRETCH, dispatch};
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_range, team};
use crate::simd::Simd;

/// Inputs `[n, stride]` in bytes, with the offset of their instruction set, and the scales `[n, stretches]`.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) stride: usize,
    pub(super) scales: &'a [f32],
    pub(super) stretches: usize,
}

impl Inputs<'_> {
    /// Returns the number of tokens.
    pub(super) fn count(&self) -> usize {
        self.scales.len() / self.stretches
    }

    /// Returns the scale of a stretch of a token.
    #[inline(always)]
    pub(super) fn scale(&self, token: usize, stretch: usize) -> f32 {
        self.scales[token * self.stretches + stretch]
    }

    /// Returns the first inputs of the `T` tokens from `first` on.
    #[inline(always)]
    pub(super) fn tokens<const T: usize>(&self, first: usize) -> [*const u8; T] {
        let mut inputs = [self.bytes[first * self.stride..].as_ptr(); T];
        for (t, inputs) in inputs.iter_mut().enumerate() {
            *inputs = self.bytes[(first + t) * self.stride..].as_ptr();
        }
        inputs
    }
}

/// Returns the number of bytes of a token: whole chunks.
pub(super) fn stride(cols: usize) -> usize {
    cols.next_multiple_of(CHUNK)
}

/// Returns the number of stretches of a token.
pub(super) fn stretches(cols: usize) -> usize {
    cols.div_ceil(STRETCH * CHUNK)
}

/// Rounds `x [n, cols]` to bytes.
///
/// The scale of a stretch that holds an infinity or NaN is NaN, and so are the outputs of its token.
pub(super) fn quantize(isa: ByteIsa, x: &[f32], cols: usize, bytes: &mut [u8], scales: &mut [f32]) {
    let (stride, stretches) = (stride(cols), stretches(cols));
    let n = scales.len() / stretches;
    assert!(x.len() == n * cols && bytes.len() == n * stride);
    let (bytes, scales) = (Pointer(bytes.as_mut_ptr()), Shared::new(scales));
    // Two passes over each input, as fast as two multiply-adds.
    for_each_range(n, team(2 * x.len(), 0), |tokens| {
        dispatch(isa, Quantize { x, cols, tokens, bytes, scales });
    });
}

/// Pointer that several threads write through, each to its own tokens.
#[derive(Clone, Copy)]
struct Pointer(*mut u8);
// SAFETY: tokens are divided among threads.
unsafe impl Send for Pointer {}
// SAFETY: as above.
unsafe impl Sync for Pointer {}

struct Quantize<'a> {
    x: &'a [f32],
    cols: usize,
    tokens: std::ops::Range<usize>,
    bytes: Pointer,
    scales: Shared,
}

impl ByteWork for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(self) {
        let (stride, stretches) = (stride(self.cols), stretches(self.cols));
        for token in self.tokens {
            let x = &self.x[token * self.cols..(token + 1) * self.cols];
            for (stretch, x) in x.chunks(STRETCH * CHUNK).enumerate() {
                // SAFETY: every token has its scales and `stride` bytes, which no other thread writes.
                unsafe {
                    let to = self.bytes.0.add(token * stride + stretch * STRETCH * CHUNK);
                    *self.scales.get().add(token * stretches + stretch) = rounded::<D>(x, to);
                }
            }
        }
    }
}

/// Rounds the inputs of a stretch, and returns their scale.
#[inline(always)]
unsafe fn rounded<D: Dots>(x: &[f32], to: *mut u8) -> f32 {
    // SAFETY: the caller runs on a CPU that supports `D`, and guarantees as many bytes, rounded up to whole chunks.
    unsafe {
        let largest = largest::<D::Floats>(x);
        let inverse = if largest > 0.0 { MOST as f32 / largest } else { 0.0 };
        // Inputs below 4e-37 have no inverse that is finite, and are as good as zero.
        let inverse = if inverse.is_finite() { inverse } else { 0.0 };
        let whole = x.len() / TILE_ROWS * TILE_ROWS;
        for at in (0..whole).step_by(TILE_ROWS) {
            D::quantize(x.as_ptr().add(at), inverse, to.add(at));
        }
        // Inputs past the last column are multiplied by weights of zero, whatever they are.
        let mut rest = [0.0; TILE_ROWS];
        rest[..x.len() - whole].copy_from_slice(&x[whole..]);
        for at in (whole..stride(x.len())).step_by(TILE_ROWS) {
            D::quantize(rest.as_ptr(), inverse, to.add(at));
            rest = [0.0; TILE_ROWS];
        }
        largest / MOST as f32
    }
}

/// Returns the larger of two numbers; unlike `f32::max` it is a single instruction.
#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// Returns the largest magnitude, NaN if a value is not finite.
#[inline(always)]
unsafe fn largest<S: Simd>(x: &[f32]) -> f32 {
    // SAFETY: the caller runs on a CPU that supports `S`.
    unsafe {
        let (mut most, mut least, mut wrong) = (S::zero(), S::zero(), S::zero());
        let whole = x.len() / S::LANES * S::LANES;
        for at in (0..whole).step_by(S::LANES) {
            let values = S::load(x.as_ptr().add(at));
            (most, least) = (S::max(most, values), S::min(least, values));
            wrong = S::fma(values, S::zero(), wrong);
        }
        let mut lanes = [[0.0_f32; 16]; 3];
        for (lanes, vector) in lanes.iter_mut().zip([most, least, wrong]) {
            S::store(lanes.as_mut_ptr(), vector);
        }
        let [mut most, least, mut wrong] = lanes;
        for lane in 0..most.len() {
            most[lane] = larger(most[lane], -least[lane]);
        }
        for (lane, &value) in x[whole..].iter().enumerate() {
            most[lane] = larger(most[lane], value.abs());
            wrong[lane] += value * 0.0;
        }
        // Reduces by halves, whose lanes do not wait for each other.
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                most[lane] = larger(most[lane], most[lane + half]);
                wrong[lane] += wrong[lane + half];
            }
        }
        most[0] + wrong[0]
    }
}
