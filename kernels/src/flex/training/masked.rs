//! Passes over a dense weight and its byte mask: one byte for each weight, not zero where it is kept.

use std::mem::MaybeUninit;
use std::sync::{Mutex, PoisonError};

use crate::flex::parallel::{for_each_part, team};
use crate::flex::simd::{Isa, Simd, Work, dispatch};

/// Weights per thread's piece: small enough to share out, large enough to be worth it.
const PIECE: usize = 1 << 15;

/// Weights looked at before any of them is written: they stay in the nearest cache.
const BLOCK: usize = 1 << 11;

/// Shares `all` out in pieces: `each` is given one, and where it begins. `bytes` are read or written for every
/// element.
fn in_pieces<T: Send>(all: &mut [T], bytes: usize, each: impl Fn(usize, &mut [T]) + Sync) {
    let team = team(0, bytes * all.len());
    let pieces: Vec<Mutex<&mut [T]>> = all.chunks_mut(PIECE).map(Mutex::new).collect();
    for_each_part(pieces.len(), team, |at| {
        // Nobody else ever asks for this piece.
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
        // A select, not a product: a dropped weight is a zero even where it was infinite or NaN.
        for ((out, &weight), &keep) in self.out.iter_mut().zip(self.weight).zip(self.mask) {
            out.write(if keep != 0 { weight } else { 0.0 });
        }
    }
}

/// `weight` where `mask` is not zero, else 0.
pub(crate) fn masked(isa: Isa, weight: &[f32], mask: &[u8]) -> Vec<f32> {
    let len = weight.len();
    assert_eq!(mask.len(), len);
    let mut out = Vec::with_capacity(len);
    in_pieces(&mut out.spare_capacity_mut()[..len], 9, |from, out| {
        let (weight, mask) = (&weight[from..], &mask[from..]);
        dispatch(isa, Copied { weight, mask, out });
    });
    // SAFETY: the pieces are all of the first `len` places, and each was written to its end, since weight
    // and mask have as many.
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
            // Most optimizers leave a zero that has no gradient where it is: then nothing is written.
            if weight.iter().zip(mask).map(bits).fold(0, |all, bits| all | bits) == 0 {
                continue;
            }
            for (weight, &keep) in weight.iter_mut().zip(mask) {
                *weight = if keep != 0 { *weight } else { 0.0 };
            }
        }
    }
}

/// [`masked`] where nobody else reads the weight.
pub(crate) fn mask(isa: Isa, weight: &mut [f32], mask: &[u8]) {
    assert_eq!(mask.len(), weight.len());
    in_pieces(weight, 9, |from, weight| dispatch(isa, InPlace { weight, mask: &mask[from..] }));
}

struct Drawn<'a> {
    grad: &'a mut [f32],
    weight: &'a [f32],
    mask: &'a [u8],
    factor: f32,
}

impl Work for Drawn<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for ((grad, &weight), &keep) in self.grad.iter_mut().zip(self.weight).zip(self.mask) {
            *grad += if keep != 0 { 0.0 } else { self.factor * weight };
        }
    }
}

/// Adds `factor` times the weight to the gradient where the weight is dropped.
pub(crate) fn draw(isa: Isa, grad: &mut [f32], weight: &[f32], mask: &[u8], factor: f32) {
    assert_eq!((weight.len(), mask.len()), (grad.len(), grad.len()));
    in_pieces(grad, 13, |from, grad| {
        let (weight, mask) = (&weight[from..], &mask[from..]);
        dispatch(isa, Drawn { grad, weight, mask, factor });
    });
}
