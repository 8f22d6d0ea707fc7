//! Gather kernel of unstructured rows for few tokens: vectors run along the kept weights of a row, and each lane
//! gathers its own input. Tokens need no transposition on the way in or out.

use crate::Activation;
use crate::parallel::{Shared, for_each_range, team};
use crate::polynomials::gelu;
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::{Store, Value, Weight};

/// Maximum number of tokens that share one pass over the weights.
const TOKENS: usize = 8;

/// Approximate cost of a gathered input, in multiply-adds.
const WORK: usize = 16;

/// Rows whose outputs are stored together; no vector has more lanes.
const STRIP: usize = 16;

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
    let n = x.len() / weight.cols;
    let bytes = (size_of::<V>() + size_of::<i32>()) * weight.work();
    let team = team(weight.work() * n * WORK, bytes);
    let strips = weight.rows.div_ceil(STRIP);
    for_each_range(strips, team, |strips| {
        dispatch(isa, Gather { weight, strips, x, n, store, y });
    });
}

struct Gather<'a, V> {
    weight: &'a Weight<'a, V>,
    strips: std::ops::Range<usize>,
    x: &'a [f32],
    n: usize,
    store: Store<'a>,
    y: Shared,
}

impl<V: Value> Work for Gather<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: guaranteed by the caller. With few tokens, several vectors are processed at a time, each with its own
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
        for strip in self.strips.clone() {
            let rows = strip * STRIP..weight.rows.min((strip + 1) * STRIP);
            let mut sums = [[0.0_f32; STRIP]; T];
            for row in rows.clone() {
                // SAFETY: guaranteed by the caller.
                let row_sums = unsafe { self.row::<S, T, CHAINS>(row) };
                for t in 0..T {
                    sums[t][row - rows.start] = row_sums[t] + self.store.bias(row);
                }
            }
            for t in 0..T {
                for lane in (0..rows.len()).step_by(S::LANES) {
                    let count = S::LANES.min(rows.len() - lane);
                    // SAFETY: a strip consists of whole vectors, and each strip owns its rows.
                    unsafe {
                        let y = self.y.get().add(t * weight.rows + rows.start + lane);
                        let sum = S::load(sums[t].as_ptr().add(lane));
                        let sum = self.store.activate::<S>(sum, true);
                        let gelu_asked = self.store.activation == Activation::Gelu;
                        S::store_first(y, if gelu_asked { gelu::<S>(sum) } else { sum }, count);
                    }
                }
            }
        }
    }

    /// Returns the row's product with each of `T` tokens.
    #[inline(always)]
    unsafe fn row<S: Simd, const T: usize, const CHAINS: usize>(&self, row: usize) -> [f32; T] {
        let weight = self.weight;
        let [start, end] = [row, row + 1].map(|row| weight.offsets[row] as usize);
        // SAFETY: the offsets are within the values and columns, and every column is within each token's input; both
        // were checked.
        unsafe {
            let mut sums = [[S::zero(); T]; CHAINS];
            let mut at = start;
            while at + CHAINS * S::LANES <= end {
                for (chain, sums) in sums.iter_mut().enumerate() {
                    self.add::<S, T>(at + chain * S::LANES, sums);
                }
                at += CHAINS * S::LANES;
            }
            while at + S::LANES <= end {
                self.add::<S, T>(at, &mut sums[0]);
                at += S::LANES;
            }
            let mut total = [0.0; T];
            for t in 0..T {
                let mut sum = sums[0][t];
                for chain in &sums[1..] {
                    sum = S::add(sum, chain[t]);
                }
                let mut lanes = [0.0_f32; STRIP];
                S::store(lanes.as_mut_ptr(), sum);
                total[t] = lanes.iter().sum();
                for at in at..end {
                    let x = self.x[t * weight.cols + weight.columns[at] as usize];
                    total[t] += weight.values[at].widen() * x;
                }
            }
            total
        }
    }

    /// Adds a vector of weights to the sums of `T` tokens.
    #[inline(always)]
    unsafe fn add<S: Simd, const T: usize>(&self, at: usize, sums: &mut [S::F; T]) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let w = V::load::<S>(self.weight.values.as_ptr().add(at));
            let columns = S::columns(self.weight.columns.as_ptr().add(at));
            for t in 0..T {
                let x = self.x.as_ptr().add(t * self.weight.cols);
                sums[t] = S::fma(w, S::gather(x, columns), sums[t]);
            }
        }
    }
}
