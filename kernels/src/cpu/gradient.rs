//! Gradients through a packed weight, entry by entry on transposed tiles.

use rayon::prelude::*;

use crate::cpu::parallel::{Shared, for_each_part, team};
use crate::cpu::simd::{Isa, Simd, Work, dispatch};
use crate::cpu::tiles::{Pack, Tile, Unpack, cut, width};
use crate::cpu::{Value, Weight};
use crate::layout::TILE_ROWS;

/// Computes `dx [n, cols] = dy [n, rows] · W`.
pub(crate) fn dx<V: Value>(isa: Isa, weight: &Weight<'_, V>, dy: &[f32], dx: &mut [f32]) {
    let n = dy.len() / weight.rows;
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    let tiles = cut(isa, weight.layout, n, team.threads);
    let shared = Shared::new(dx);
    for_each_part(tiles.len(), team, |at| {
        let tile = &tiles[at];
        let width = width(isa, tile);
        let dyt = transpose(isa, dy, weight.rows, tile, width);
        let mut dxt = vec![0.0; weight.cols * width];
        weight.entries(0..weight.rows, |row, col, at| {
            let (from, to) = (&dyt[row * width..][..width], &mut dxt[col * width..][..width]);
            dispatch(isa, Axpy { by: weight.values[at].widen(), from, to });
        });
        // Tiles own disjoint tokens of `dx`.
        let (yt, rows) = (Shared::new(&mut dxt), weight.cols);
        dispatch(isa, Unpack { yt, rows, tile, range: 0..rows, y: shared });
    });
}

/// Returns the gradient of every kept value, `Σ_token dy[row] · x[column]`; zero for padding.
pub(crate) fn dw<V: Value>(isa: Isa, weight: &Weight<'_, V>, x: &[f32], dy: &[f32]) -> Vec<f32> {
    let n = x.len() / weight.cols;
    // A single tile as wide as all tokens, so that each entry is one dot product along them.
    let one = Tile { first: 0, tokens: n, vectors: 1 };
    let tile = Tile { vectors: n.div_ceil(width(isa, &one)), ..one };
    let width = width(isa, &tile);
    let xt = transpose(isa, x, weight.cols, &tile, width);
    let dyt = transpose(isa, dy, weight.rows, &tile, width);
    let pieces: Vec<Vec<(usize, f32)>> = (0..weight.rows.div_ceil(TILE_ROWS))
        .into_par_iter()
        .map(|piece| {
            let rows = piece * TILE_ROWS..((piece + 1) * TILE_ROWS).min(weight.rows);
            let mut found = Vec::new();
            weight.entries(rows, |row, col, at| {
                let (a, b) = (&dyt[row * width..][..width], &xt[col * width..][..width]);
                found.push((at, dispatch(isa, Dot { a, b })));
            });
            found
        })
        .collect();
    let mut dw = vec![0.0; weight.values.len()];
    for (at, value) in pieces.into_iter().flatten() {
        dw[at] = value;
    }
    dw
}

fn transpose(isa: Isa, x: &[f32], cols: usize, tile: &Tile, width: usize) -> Vec<f32> {
    let mut xt = vec![0.0; cols * width];
    dispatch(isa, Pack { x, cols, tile, features: 0..cols, xt: Shared::new(&mut xt) });
    xt
}

struct Axpy<'a> {
    by: f32,
    from: &'a [f32],
    to: &'a mut [f32],
}

impl Work for Axpy<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        for (to, from) in self.to.chunks_exact_mut(S::LANES).zip(self.from.chunks_exact(S::LANES)) {
            // SAFETY: both chunks are one vector long.
            unsafe {
                let sum = S::fma(S::splat(self.by), S::load(from.as_ptr()), S::load(to.as_ptr()));
                S::store(to.as_mut_ptr(), sum);
            }
        }
    }
}

struct Dot<'a> {
    a: &'a [f32],
    b: &'a [f32],
}

impl Work for Dot<'_> {
    type Output = f32;

    #[inline(always)]
    unsafe fn run<S: Simd>(self) -> f32 {
        let mut lanes = [0.0_f32; 16];
        // SAFETY: chunks are one vector long, and `lanes` holds the longest vector.
        unsafe {
            let mut sum = S::zero();
            for (a, b) in self.a.chunks_exact(S::LANES).zip(self.b.chunks_exact(S::LANES)) {
                sum = S::fma(S::load(a.as_ptr()), S::load(b.as_ptr()), sum);
            }
            S::store(lanes.as_mut_ptr(), sum);
        }
        lanes.iter().sum()
    }
}
