//! Passes over a dense weight and its byte mask: one byte per weight, nonzero where the weight is kept.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use crate::parallel::{for_each_part, team};
use crate::simd::{Isa, Simd, Work, dispatch};

/// Number of weights per piece: small enough to divide among threads, large enough to be worth it.
const PIECE: usize = 1 << 15;

/// Number of weights checked before any of them is written, few enough to stay in the first-level cache.
const BLOCK: usize = 1 << 11;

/// Splits `all` into pieces among threads and calls `each` with the start of a piece and the piece. `bytes` are read or
/// written per element.
fn in_pieces<T: Send>(all: &mut [T], bytes: usize, each: impl Fn(usize, &mut [T]) + Sync) {
    let team = team(0, bytes * all.len());
    let pieces: Vec<Mutex<&mut [T]>> = all.chunks_mut(PIECE).map(Mutex::new).collect();
    for_each_part(pieces.len(), team, |at| {
        // Never contended: only this part locks this piece.
        each(at * PIECE, &mut pieces[at].lock().unwrap_or_else(PoisonError::into_inner));
    });
}

struct Copied<'a> {
    weight: &'a [f32],
    mask: &'a [u8],
    out: &'a mut [MaybeUninit<f32>],
}

impl Work for Copied<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // Uses a select, not a product: a dropped weight becomes zero even if it was infinite or NaN.
        for ((out, &weight), &keep) in self.out.iter_mut().zip(self.weight).zip(self.mask) {
            out.write(if keep != 0 { weight } else { 0.0 });
        }
    }
}

/// Returns `weight` where `mask` is nonzero, and 0 elsewhere.
pub fn masked(isa: Isa, weight: &[f32], mask: &[u8]) -> Vec<f32> {
    let len = weight.len();
    assert_eq!(mask.len(), len);
    let mut out = Vec::with_capacity(len);
    in_pieces(&mut out.spare_capacity_mut()[..len], 9, |from, out| {
        let (weight, mask) = (&weight[from..], &mask[from..]);
        dispatch(isa, Copied { weight, mask, out });
    });
    // SAFETY: the pieces cover all of the first `len` elements, and each was fully written because weight and mask have
    // the same length.
    unsafe { out.set_len(len) };
    out
}

struct InPlace<'a> {
    weight: &'a mut [f32],
    mask: &'a [u8],
}

impl Work for InPlace<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let blocks = self.weight.chunks_mut(BLOCK).zip(self.mask.chunks(BLOCK));
        for (weight, mask) in blocks {
            let bits = |(weight, keep): (&f32, &u8)| if *keep != 0 { 0 } else { weight.to_bits() };
            // Most optimizers leave a zero weight without a gradient unchanged, so there is usually nothing to write.
            if weight.iter().zip(mask).map(bits).fold(0, |all, bits| all | bits) == 0 {
                continue;
            }
            for (weight, &keep) in weight.iter_mut().zip(mask) {
                *weight = if keep != 0 { *weight } else { 0.0 };
            }
        }
    }
}

/// Same as [`masked`], but in place, for a weight that has no other readers.
pub fn mask(isa: Isa, weight: &mut [f32], mask: &[u8]) {
    assert_eq!(mask.len(), weight.len());
    in_pieces(weight, 9, |from, weight| dispatch(isa, InPlace { weight, mask: &mask[from..] }));
}

struct Decayed<'a> {
    grad: &'a mut [f32],
    weight: &'a [f32],
    mask: &'a [u8],
    factor: f32,
}

impl Work for Decayed<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for ((grad, &weight), &keep) in self.grad.iter_mut().zip(self.weight).zip(self.mask) {
            *grad += if keep != 0 { 0.0 } else { self.factor * weight };
        }
    }
}

/// Adds `factor` times the weight to the gradient of every dropped weight.
pub fn decay(isa: Isa, grad: &mut [f32], weight: &[f32], mask: &[u8], factor: f32) {
    assert_eq!((weight.len(), mask.len()), (grad.len(), grad.len()));
    in_pieces(grad, 13, |from, grad| {
        let (weight, mask) = (&weight[from..], &mask[from..]);
        dispatch(isa, Decayed { grad, weight, mask, factor });
    });
}
