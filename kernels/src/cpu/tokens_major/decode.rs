//! Decode kernel of the grouped layout for a few tokens: every weight is read once, vectors run along the rows of a
//! group, and each input is one broadcast.

use crate::Layout;
use crate::cpu::parallel::{Shared, for_each_range, team};
use crate::cpu::simd::{Isa, Simd, Work, dispatch};
use crate::cpu::{Store, Value, Weight};

/// Maximum number of tokens whose sums fit in registers.
const TOKENS: usize = 8;

/// Returns `true` if vectors of this instruction set fill the groups and the tokens fit in registers.
pub(crate) fn fits(vector: usize, n: usize, isa: Isa) -> bool {
    struct Lanes;
    impl Work for Lanes {
        type Output = usize;
        unsafe fn run<S: Simd>(self) -> usize {
            S::LANES
        }
    }
    n <= TOKENS && vector.is_multiple_of(dispatch(isa, Lanes))
}

pub(crate) fn run<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    x: &[f32],
    store: Store<'_>,
    y: Shared,
) {
    let Layout::Grouped { vector } = weight.layout else {
        unreachable!("chosen for the grouped layout only")
    };
    let n = x.len() / weight.cols;
    let groups = weight.rows.div_ceil(vector);
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    for_each_range(groups, team, |groups| {
        dispatch(isa, Decode { weight, vector, groups, x, n, store, y });
    });
}

struct Decode<'a, V> {
    weight: &'a Weight<'a, V>,
    vector: usize,
    groups: std::ops::Range<usize>,
    x: &'a [f32],
    n: usize,
    store: Store<'a>,
    y: Shared,
}

impl<V: Value> Work for Decode<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.n {
                // A single token would wait for its only chain of sums, so several columns are processed at a time.
                1 => self.tokens::<S, 1, 4>(),
                2 => self.tokens::<S, 2, 2>(),
                3 => self.tokens::<S, 3, 2>(),
                4 => self.tokens::<S, 4, 1>(),
                5 => self.tokens::<S, 5, 1>(),
                6 => self.tokens::<S, 6, 1>(),
                7 => self.tokens::<S, 7, 1>(),
                _ => self.tokens::<S, 8, 1>(),
            }
        }
    }
}

impl<V: Value> Decode<'_, V> {
    #[inline(always)]
    unsafe fn tokens<S: Simd, const T: usize, const CHAINS: usize>(&self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            if self.vector.is_multiple_of(2 * S::LANES) {
                self.vectors::<S, T, CHAINS, 2>();
            } else {
                self.vectors::<S, T, CHAINS, 1>();
            }
        }
    }

    #[inline(always)]
    unsafe fn vectors<S: Simd, const T: usize, const CHAINS: usize, const U: usize>(&self) {
        let (weight, cols) = (self.weight, self.weight.cols);
        for group in self.groups.clone() {
            let columns =
                &weight.columns[weight.offsets[group] as usize..weight.offsets[group + 1] as usize];
            let rows =
                &weight.order[group * self.vector..((group + 1) * self.vector).min(weight.rows)];
            for lane in (0..rows.len()).step_by(U * S::LANES) {
                let start = weight.offsets[group] as usize * self.vector + lane;
                // SAFETY: columns were checked against `cols`, so `x[token][column]` exists; the values of a group are
                // `columns.len() · vector` floats, and these are whole vectors of them.
                unsafe {
                    let mut sums = [[[S::zero(); U]; T]; CHAINS];
                    let mut values = weight.values.as_ptr().add(start);
                    let mut chunks = columns.chunks_exact(CHAINS);
                    for chunk in &mut chunks {
                        for (chain, &column) in chunk.iter().enumerate() {
                            self.column::<S, T, U>(column, cols, values, &mut sums[chain]);
                            values = values.add(self.vector);
                        }
                    }
                    for &column in chunks.remainder() {
                        self.column::<S, T, U>(column, cols, values, &mut sums[0]);
                        values = values.add(self.vector);
                    }
                    let rows = &rows[lane..rows.len().min(lane + U * S::LANES)];
                    // Rows are scattered in the output, so the bias of each lane is gathered first.
                    let mut bias = [0.0_f32; 64];
                    for (bias, &row) in bias.iter_mut().zip(rows) {
                        *bias = self.store.bias(row as usize);
                    }
                    for token in 0..T {
                        let mut buffer = [0.0_f32; 64];
                        for v in 0..U {
                            let mut sum = sums[0][token][v];
                            for chain in &sums[1..] {
                                sum = S::add(sum, chain[token][v]);
                            }
                            sum = S::add(sum, S::load(bias.as_ptr().add(v * S::LANES)));
                            let sum = self.store.activate::<S>(sum, true);
                            S::store(buffer.as_mut_ptr().add(v * S::LANES), sum);
                        }
                        self.store.finish::<S>(buffer.as_mut_ptr(), U * S::LANES);
                        let y = self.y.get().add(token * weight.rows);
                        for (&row, &sum) in rows.iter().zip(&buffer) {
                            *y.add(row as usize) = sum;
                        }
                    }
                }
            }
        }
    }

    /// Adds one kept column to the sums of all tokens.
    #[inline(always)]
    unsafe fn column<S: Simd, const T: usize, const U: usize>(
        &self,
        column: i32,
        cols: usize,
        values: *const V,
        sums: &mut [[S::F; U]; T],
    ) {
        // SAFETY: the caller checked the column and the range of `values`.
        unsafe {
            let mut w = [S::zero(); U];
            for (v, w) in w.iter_mut().enumerate() {
                *w = V::load::<S>(values.add(v * S::LANES));
            }
            for (token, sums) in sums.iter_mut().enumerate() {
                let x = S::splat(*self.x.as_ptr().add(token * cols + column as usize));
                for v in 0..U {
                    sums[v] = S::fma(w[v], x, sums[v]);
                }
            }
        }
    }
}
