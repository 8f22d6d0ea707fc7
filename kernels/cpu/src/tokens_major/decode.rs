//! Decode kernel of the grouped layout for a few tokens: every weight is read once, vectors run along the rows of a
//! group, and each input is one broadcast. If a group fills only a part of a vector, several columns share one.

use crate::Layout;
use crate::parallel::{Shared, for_each_range, team};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::{Store, Value, Weight};

/// Maximum number of tokens whose sums fit in registers.
const TOKENS: usize = 8;

/// Maximum number of floats in the sums of a token: two vectors of AVX-512, four of any other set.
const MOST: usize = 32;

/// Maximum number of columns that share a vector: each needs its own broadcast.
const BESIDE: usize = 4;

/// Returns `true` if groups fill vectors of this instruction set, or a half or quarter of one, and the tokens fit in
/// registers.
pub(crate) fn fits(vector: usize, n: usize, isa: Isa) -> bool {
    struct Lanes;
    impl Work for Lanes {
        type Output = usize;
        unsafe fn run<S: Simd>(self) -> usize {
            S::LANES
        }
    }
    let lanes = dispatch(isa, Lanes);
    let whole = vector.is_multiple_of(lanes);
    n <= TOKENS && (whole || [2, BESIDE].map(|columns| columns * vector).contains(&lanes))
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
            let four = 4 * S::LANES <= MOST && self.vector.is_multiple_of(4 * S::LANES);
            if four && T <= 2 {
                // As many sums as with two vectors, but whole lines of memory are read in order.
                match T {
                    1 => self.vectors::<S, T, 2, 4>(),
                    _ => self.vectors::<S, T, 1, 4>(),
                }
            } else if self.vector.is_multiple_of(2 * S::LANES) {
                self.vectors::<S, T, CHAINS, 2>();
            } else if self.vector.is_multiple_of(S::LANES) {
                self.vectors::<S, T, CHAINS, 1>();
            } else if 2 * self.vector == S::LANES {
                self.beside::<S, T, CHAINS, 2>();
            } else {
                self.beside::<S, T, CHAINS, BESIDE>();
            }
        }
    }

    /// Returns the kept columns of a group, their values, and its rows.
    fn group(&self, group: usize) -> (&[i32], *const V, &[i32]) {
        let weight = self.weight;
        let [start, end] = [group, group + 1].map(|group| weight.offsets[group] as usize);
        let places = group * self.vector..((group + 1) * self.vector).min(weight.rows);
        let values = weight.values[start * self.vector..].as_ptr();
        (&weight.columns[start..end], values, &weight.order[places])
    }

    /// Processes groups of whole vectors, `U` of them at a time.
    #[inline(always)]
    unsafe fn vectors<S: Simd, const T: usize, const CHAINS: usize, const U: usize>(&self) {
        for group in self.groups.clone() {
            let (columns, values, rows) = self.group(group);
            for lane in (0..rows.len()).step_by(U * S::LANES) {
                // SAFETY: columns were checked, so `x[token][column]` exists; the values of a group are
                // `columns.len() · vector` floats, and these are whole vectors of them.
                unsafe {
                    let rows = &rows[lane..rows.len().min(lane + U * S::LANES)];
                    let mut sums = [[[S::zero(); U]; T]; CHAINS];
                    sums[0] = [self.bias::<S, U>(rows); T];
                    let mut values = values.wrapping_add(lane);
                    let mut chunks = columns.chunks_exact(CHAINS);
                    for chunk in &mut chunks {
                        for (chain, &column) in chunk.iter().enumerate() {
                            self.column::<S, T, U>(column, values, &mut sums[chain]);
                            values = values.wrapping_add(self.vector);
                        }
                    }
                    for &column in chunks.remainder() {
                        self.column::<S, T, U>(column, values, &mut sums[0]);
                        values = values.wrapping_add(self.vector);
                    }
                    for token in 0..T {
                        let mut found = sums[0][token];
                        for chain in &sums[1..] {
                            for (found, sum) in found.iter_mut().zip(chain[token]) {
                                *found = S::add(*found, sum);
                            }
                        }
                        self.put::<S, U>(token, rows, &found);
                    }
                }
            }
        }
    }

    /// Processes groups that fill `1 / C` of a vector: `C` columns at a time, side by side.
    #[inline(always)]
    unsafe fn beside<S: Simd, const T: usize, const CHAINS: usize, const C: usize>(&self) {
        let cols = self.weight.cols;
        for group in self.groups.clone() {
            let (columns, values, rows) = self.group(group);
            // SAFETY: as in `vectors`; `C` columns of a group are one vector of values.
            unsafe {
                let mut sums = [[S::zero(); T]; CHAINS];
                let [bias] = self.bias::<S, 1>(rows);
                sums[0] = [bias; T];
                let mut at = values;
                let (columns, rest) = columns.as_chunks::<C>();
                let mut chunks = columns.chunks_exact(CHAINS);
                for chunk in &mut chunks {
                    for (chain, columns) in chunk.iter().enumerate() {
                        self.columns::<S, T, C>(columns, at, &mut sums[chain]);
                        at = at.add(S::LANES);
                    }
                }
                for columns in chunks.remainder() {
                    self.columns::<S, T, C>(columns, at, &mut sums[0]);
                    at = at.add(S::LANES);
                }
                for token in 0..T {
                    let mut sum = sums[0][token];
                    for chain in &sums[1..] {
                        sum = S::add(sum, chain[token]);
                    }
                    let mut parts = [0.0_f32; MOST];
                    S::store(parts.as_mut_ptr(), sum);
                    // Compiles to scalars and inserts; a vector load of scalars just stored would wait for all of them.
                    let mut found = [0.0_f32; 16];
                    for row in 0..S::LANES / C {
                        found[row] = parts[row];
                        for column in 1..C {
                            found[row] += parts[column * (S::LANES / C) + row];
                        }
                    }
                    for (i, &column) in rest.iter().enumerate() {
                        let x = *self.x.as_ptr().add(token * cols + column as usize);
                        for row in 0..S::LANES / C {
                            found[row] += (*at.add(i * (S::LANES / C) + row)).widen() * x;
                        }
                    }
                    self.put::<S, 1>(token, rows, &[S::load(found.as_ptr())]);
                }
            }
        }
    }

    /// Returns the biases of the rows of `U` vectors, which are scattered.
    #[inline(always)]
    unsafe fn bias<S: Simd, const U: usize>(&self, rows: &[i32]) -> [S::F; U] {
        // SAFETY: every row is a row of the weight, which has as many biases; 16 floats are at least a vector.
        unsafe {
            let mut biases = [S::zero(); U];
            let Some(bias) = self.store.bias else { return biases };
            for (v, biases) in biases.iter_mut().enumerate() {
                let rows = &rows[rows.len().min(v * S::LANES)..];
                *biases = if rows.len() >= S::LANES {
                    S::gather_columns(bias.as_ptr(), rows.as_ptr())
                } else {
                    let mut first = [0.0_f32; 16];
                    for (first, &row) in first.iter_mut().zip(rows) {
                        *first = bias[row as usize];
                    }
                    S::load(first.as_ptr())
                };
            }
            biases
        }
    }

    /// Writes the outputs of a token for rows of `U` vectors, from their sums.
    #[inline(always)]
    unsafe fn put<S: Simd, const U: usize>(&self, token: usize, rows: &[i32], sums: &[S::F; U]) {
        // SAFETY: `U` vectors are at most `MOST` floats; every row is a row of the output and belongs to this group alone.
        unsafe {
            let mut outputs = [0.0_f32; MOST];
            for v in 0..U {
                let sum = self.store.activate::<S>(sums[v], true);
                S::store(outputs.as_mut_ptr().add(v * S::LANES), sum);
            }
            self.store.finish::<S>(outputs.as_mut_ptr(), U * S::LANES);
            let y = self.y.get().add(token * self.weight.rows);
            if rows.len() == U * S::LANES {
                for (i, output) in outputs.iter().enumerate().take(U * S::LANES) {
                    *y.add(*rows.get_unchecked(i) as usize) = *output;
                }
            } else {
                for (&row, &output) in rows.iter().zip(&outputs) {
                    *y.add(row as usize) = output;
                }
            }
        }
    }

    /// Adds one kept column to the sums of all tokens.
    #[inline(always)]
    unsafe fn column<S: Simd, const T: usize, const U: usize>(
        &self,
        column: i32,
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
                let x = S::splat(*self.x.as_ptr().add(token * self.weight.cols + column as usize));
                for v in 0..U {
                    sums[v] = S::fma(w[v], x, sums[v]);
                }
            }
        }
    }

    /// Adds `C` kept columns to the sums of all tokens, each in its part of the vectors.
    #[inline(always)]
    unsafe fn columns<S: Simd, const T: usize, const C: usize>(
        &self,
        columns: &[i32; C],
        values: *const V,
        sums: &mut [S::F; T],
    ) {
        // SAFETY: the caller checked the columns and the range of `values`.
        unsafe {
            let w = V::load::<S>(values);
            for (token, sum) in sums.iter_mut().enumerate() {
                let x = self.x.as_ptr().add(token * self.weight.cols);
                // Compiles to broadcasts and inserts; no lane goes through memory.
                let mut lanes = [0.0_f32; 16];
                for (part, &column) in columns.iter().enumerate() {
                    let x = *x.add(column as usize);
                    for lane in 0..S::LANES / C {
                        lanes[part * (S::LANES / C) + lane] = x;
                    }
                }
                *sum = S::fma(w, S::load(lanes.as_ptr()), *sum);
            }
        }
    }
}
