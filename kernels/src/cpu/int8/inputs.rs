//! Inputs in bytes: a scale for every token, which its largest input decides.

use super::dots::{ByteIsa, ByteWork, CHUNK, Dots, MOST, dispatch};
use crate::cpu::parallel::{Shared, for_each_range, team};
use crate::cpu::simd::Simd;
use crate::layout::TILE_ROWS;

/// Inputs `[n, stride]` in bytes, with the offset of their instruction set, and the scales of the tokens.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) stride: usize,
    pub(super) scales: &'a [f32],
}

impl Inputs<'_> {
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

/// Rounds `x [n, cols]` to bytes.
///
/// The scale of a token that holds an infinity or NaN is NaN, and so are its outputs.
pub(super) fn quantize(isa: ByteIsa, x: &[f32], cols: usize, bytes: &mut [u8], scales: &mut [f32]) {
    let (n, stride) = (scales.len(), stride(cols));
    assert!(x.len() == n * cols && bytes.len() == n * stride);
    let (bytes, scales) = (Pointer(bytes.as_mut_ptr()), Shared::new(scales));
    // Two passes over each input, as fast as two multiply-adds.
    for_each_range(n, team(2 * x.len(), 0), |tokens| {
        dispatch(isa, Quantize { x, cols, stride, tokens, bytes, scales });
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
    stride: usize,
    tokens: std::ops::Range<usize>,
    bytes: Pointer,
    scales: Shared,
}

impl ByteWork for Quantize<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<D: Dots>(self) {
        for token in self.tokens {
            let x = &self.x[token * self.cols..(token + 1) * self.cols];
            // SAFETY: every token has its scale and `stride` bytes, which no other thread writes.
            unsafe {
                let largest = largest::<D::Floats>(x);
                *self.scales.get().add(token) = largest / MOST as f32;
                let inverse = if largest > 0.0 { MOST as f32 / largest } else { 0.0 };
                let to = self.bytes.0.add(token * self.stride);
                let whole = x.len() / TILE_ROWS * TILE_ROWS;
                for at in (0..whole).step_by(TILE_ROWS) {
                    D::quantize(x.as_ptr().add(at), inverse, to.add(at));
                }
                // Columns past the last meet weights of zero, whatever they are.
                let mut rest = [0.0; TILE_ROWS];
                rest[..x.len() - whole].copy_from_slice(&x[whole..]);
                for at in (whole..self.stride).step_by(TILE_ROWS) {
                    D::quantize(rest.as_ptr(), inverse, to.add(at));
                    rest = [0.0; TILE_ROWS];
                }
            }
        }
    }
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
        let mut found = 0.0_f32;
        for lane in 0..S::LANES {
            found = found.max(lanes[0][lane]).max(-lanes[1][lane]);
        }
        let mut wrong: f32 = lanes[2][..S::LANES].iter().sum();
        for &value in &x[whole..] {
            found = found.max(value.abs());
            wrong += value * 0.0;
        }
        found + wrong
    }
}
