//! Gather kernel of unstructured rows for few tokens: vectors run along the rows of a tile of 16, and each lane
//! gathers its own input. Neither inputs nor outputs are transposed.

use super::pad;
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_range, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::{Store, Value, Weight};

/// Maximum number of tokens that share one pass over the weights.
const TOKENS: usize = 8;

/// Approximate cost of a gathered input, in multiply-adds.
const WORK: usize = 16;

pub(crate) fn fits(n: usize) -> bool {
    n <= TOKENS
}

pub(crate) fn run<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    x: &[f32],
    store: Store<'_>,
    y: Shared,
) {
    let (n, cols, padded) = (x.len() / weight.cols, weight.cols, weight.tile_rows());
    let bytes = (size_of::<V>() + size_of::<i32>()) * weight.work();
    let team = team(weight.work() * n * WORK, bytes);
    // Padding reads the input past the last column, which must be zero.
    with_scratch(n * padded, |copies| {
        pad(x, cols, copies, padded);
        let x = &*copies;
        for_each_range(weight.rows.div_ceil(TILE_ROWS), team, |tiles| {
            dispatch(isa, Gather { weight, tiles, x, n, store, y });
        });
    });
}

struct Gather<'a, V> {
    weight: &'a Weight<'a, V>,
    tiles: std::ops::Range<usize>,
    /// Inputs of every token, [`Weight::tile_rows`] floats each.
    x: &'a [f32],
    n: usize,
    store: Store<'a>,
    y: Shared,
}

impl<V: Value> Work for Gather<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: guaranteed by the caller. With few tokens, several slots are processed at a time, each with its own
        // sums, to hide the latency of a multiply-add.
        unsafe {
            match self.n {
                1 => self.tokens::<S, 1, 4>(),
                2 => self.tokens::<S, 2, 4>(),
                3 => self.tokens::<S, 3, 2>(),
                4 => self.tokens::<S, 4, 2>(),
                5 => self.tokens::<S, 5, 1>(),
                6 => self.tokens::<S, 6, 1>(),
                7 => self.tokens::<S, 7, 1>(),
                _ => self.tokens::<S, TOKENS, 1>(),
            }
        }
    }
}

impl<V: Value> Gather<'_, V> {
    #[inline(always)]
    unsafe fn tokens<S: Simd, const T: usize, const CHAINS: usize>(&self) {
        let weight = self.weight;
        for tile in self.tiles.clone() {
            let places = tile * TILE_ROWS..weight.rows.min((tile + 1) * TILE_ROWS);
            let rows = &weight.order[places];
            let mut found = [[0.0_f32; TILE_ROWS]; T];
            for (lane, &row) in rows.iter().enumerate() {
                found.iter_mut().for_each(|found| found[lane] = self.store.bias(row as usize));
            }
            for lane in (0..TILE_ROWS).step_by(S::LANES) {
                // SAFETY: a tile consists of whole vectors of slots within the values, and every column is within each
                // token's inputs; both were checked.
                unsafe {
                    let sums = self.lanes::<S, T, CHAINS>(weight.slots(tile), lane);
                    for t in 0..T {
                        let to = found[t].as_mut_ptr().add(lane);
                        let sum = S::add(sums[t], S::load(to));
                        S::store(to, self.store.activate::<S>(sum, true));
                    }
                }
            }
            for (t, found) in found.iter_mut().enumerate() {
                // SAFETY: the array holds whole vectors; every row is a row of the output and belongs to this tile alone.
                unsafe {
                    self.store.finish::<S>(found.as_mut_ptr(), TILE_ROWS);
                    for (&row, &sum) in rows.iter().zip(found.iter()) {
                        *self.y.get().add(t * weight.rows + row as usize) = sum;
                    }
                }
            }
        }
    }

    /// Returns the products of as many rows of a tile as a vector has lanes with each of `T` tokens.
    #[inline(always)]
    unsafe fn lanes<S: Simd, const T: usize, const CHAINS: usize>(
        &self,
        slots: std::ops::Range<usize>,
        lane: usize,
    ) -> [S::F; T] {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let mut sums = [[S::zero(); T]; CHAINS];
            let mut at = slots.start;
            while at + CHAINS <= slots.end {
                for (chain, sums) in sums.iter_mut().enumerate() {
                    self.add::<S, T>((at + chain) * TILE_ROWS + lane, sums);
                }
                at += CHAINS;
            }
            for at in at..slots.end {
                self.add::<S, T>(at * TILE_ROWS + lane, &mut sums[0]);
            }
            let mut total = sums[0];
            for chain in &sums[1..] {
                for t in 0..T {
                    total[t] = S::add(total[t], chain[t]);
                }
            }
            total
        }
    }

    /// Adds the products of a vector of weights to the sums of `T` tokens.
    #[inline(always)]
    unsafe fn add<S: Simd, const T: usize>(&self, at: usize, sums: &mut [S::F; T]) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let w = V::load::<S>(self.weight.values.as_ptr().add(at));
            let columns = self.weight.columns.as_ptr().add(at);
            for t in 0..T {
                let x = self.x.as_ptr().add(t * self.weight.tile_rows());
                sums[t] = S::fma(w, S::gather_columns(x, columns), sums[t]);
            }
        }
    }
}
