//! Passes over a dense weight and its byte mask: one byte for each weight, not zero where it is kept.

use rayon::prelude::*;

use super::simd::{Isa, Simd, Work, dispatch};

/// Weights per thread's piece: small enough to share out, large enough to be worth it.
const PIECE: usize = 1 << 15;

struct Copied<'a> {
    weight: &'a [f32],
    mask: &'a [u8],
    out: &'a mut [std::mem::MaybeUninit<f32>],
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
    out.spare_capacity_mut()[..len]
        .par_chunks_mut(PIECE)
        .zip(weight.par_chunks(PIECE))
        .zip(mask.par_chunks(PIECE))
        .for_each(|((out, weight), mask)| dispatch(isa, Copied { weight, mask, out }));
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
        for (weight, &keep) in self.weight.iter_mut().zip(self.mask) {
            *weight = if keep != 0 { *weight } else { 0.0 };
        }
    }
}

/// [`masked`] where nobody else reads the weight.
pub(crate) fn mask(isa: Isa, weight: &mut [f32], mask: &[u8]) {
    assert_eq!(mask.len(), weight.len());
    weight
        .par_chunks_mut(PIECE)
        .zip(mask.par_chunks(PIECE))
        .for_each(|(weight, mask)| dispatch(isa, InPlace { weight, mask }));
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
    grad.par_chunks_mut(PIECE)
        .zip(weight.par_chunks(PIECE))
        .zip(mask.par_chunks(PIECE))
        .for_each(|((grad, weight), mask)| dispatch(isa, Drawn { grad, weight, mask, factor }));
}
