use rayon::prelude::*;

use super::simd::{Isa, Simd, Work, dispatch};

/// Weights per thread's piece: small enough to share out, large enough to be worth it.
const PIECE: usize = 1 << 15;

struct Masked<'a> {
    weight: &'a [f32],
    mask: &'a [u8],
    out: &'a mut [f32],
}

impl Work for Masked<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // A select, not a product: a dropped weight is a zero even where it was infinite or NaN.
        for ((out, &weight), &keep) in self.out.iter_mut().zip(self.weight).zip(self.mask) {
            *out = if keep != 0 { weight } else { 0.0 };
        }
    }
}

/// `weight` where `mask` is not zero, else 0.
pub(crate) fn masked(isa: Isa, weight: &[f32], mask: &[u8]) -> Vec<f32> {
    let mut out = vec![0.0; weight.len()];
    out.par_chunks_mut(PIECE)
        .zip(weight.par_chunks(PIECE))
        .zip(mask.par_chunks(PIECE))
        .for_each(|((out, weight), mask)| dispatch(isa, Masked { weight, mask, out }));
    out
}
