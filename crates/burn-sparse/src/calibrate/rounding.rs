//! Rounding of kept weights to integers, each compensating for the rounding of those before it.

use burn_sparse_pattern::Mask;
use burn_sparse_pattern::format::{Integers, Scales};
use faer::{Mat, Par};
use rayon::prelude::*;

use super::factor::{Damped, threads, upper_factor_of_inverse};
use super::repair::sharing;

/// Rounds the weights on `mask` as GPTQ does (Frantar et al., ICLR 2023, Algorithm 1): column by column, and before the next
/// one, the weights after it take the values of least squares, given those that are already integers. A block's scale is chosen
/// when the block is reached, for the values of its weights at that time.
///
/// `weights` is `[cols, rows]`, and zero where the mask drops weights; the scales are those of a packed or of a dense matrix.
pub(super) fn rounded(
    damped: &Damped,
    weights: &Mat<f64>,
    mask: &Mask,
    is_packed: bool,
    integers: Integers,
) -> (Mat<f64>, Scales) {
    let (rows, cols) = (mask.rows(), mask.cols());
    let kept = is_packed.then(|| mask.kept());
    let block = integers.block((rows, cols), kept);
    let sharing = sharing(mask);
    let par = if sharing.len() == 1 { threads() } else { Par::Seq };
    let round = |rows: &Vec<usize>| -> Vec<(usize, Vec<f64>, Vec<f32>)> {
        let kept: Vec<usize> = mask.row_columns(rows[0]).collect();
        let set = Kept {
            upper: upper_factor_of_inverse(&damped.part(&kept), par),
            columns: kept,
            block,
            integers,
        };
        let one = |&row: &usize| {
            let values = set.columns.iter().map(|&col| weights[(col, row)]).collect();
            let (values, scales) = set.round(values, cols);
            (row, values, scales)
        };
        rows.par_iter().map(one).collect()
    };
    let blocks = cols.div_ceil(block).max(1);
    let (mut result, mut scales) = (Mat::zeros(cols, rows), vec![0.0; rows * blocks]);
    for (row, values, of_row) in sharing.par_iter().flat_map(round).collect::<Vec<_>>() {
        values.iter().enumerate().for_each(|(col, &value)| result[(col, row)] = value);
        scales[row * blocks..(row + 1) * blocks].copy_from_slice(&of_row);
    }
    (result, Scales::new(integers, cols, block, scales))
}

/// Kept columns of rows.
struct Kept {
    /// Ascending.
    columns: Vec<usize>,
    /// Upper triangular `U` with `Uᵀ U` the inverse of their second moments.
    upper: Vec<Vec<f64>>,
    /// Number of neighbouring columns that share a scale.
    block: usize,
    integers: Integers,
}

impl Kept {
    /// Rounds a row's kept values; returns the row with its zeros, and the scales of its blocks.
    fn round(&self, mut values: Vec<f64>, cols: usize) -> (Vec<f64>, Vec<f32>) {
        let mut scales = vec![0.0; cols.div_ceil(self.block).max(1)];
        let mut whole = vec![0.0; cols];
        let mut end = 0;
        for at in 0..values.len() {
            let scale = &mut scales[self.columns[at] / self.block];
            if at == end {
                let block = self.columns[at] / self.block;
                end = self.columns.partition_point(|col| col / self.block <= block);
                let values: Vec<f32> = values[at..end].iter().map(|&value| value as f32).collect();
                *scale = self.integers.scale(&values);
            }
            let integer = self.integers.rounding(*scale).integer(values[at] as f32);
            // Computed as wherever the value is read.
            let rounded = f64::from(f32::from(integer) * *scale);
            let off = (values[at] - rounded) / self.upper[at][at];
            for (value, u) in values[at..].iter_mut().zip(&self.upper[at][at..]) {
                *value -= off * u;
            }
            whole[self.columns[at]] = rounded;
        }
        (whole, scales)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as f64 / (1_u64 << 31) as f64 - 0.5
        };
        (0..count).map(|_| next()).collect()
    }

    /// Second moments of correlated inputs.
    fn moments(n: usize) -> Damped {
        let x = Mat::from_fn(4 * n, n, {
            let noise = noise(4 * n * n, 1);
            move |i, j| noise[i * n + j] + 2.0 * noise[i * n + j / 4 * 4]
        });
        Damped::new(&(x.transpose() * &x), 0.01, Par::Seq)
    }

    fn error(damped: &Damped, found: &Mat<f64>, target: &Mat<f64>) -> f64 {
        super::super::repair::Outputs::new(&damped.matrix, target).relative_error(found)
    }

    #[test]
    fn outputs_move_less_than_by_the_nearest_integers_and_values_are_multiples_of_scales() {
        let (rows, cols) = (24, 96);
        let damped = moments(cols);
        let dense = noise(rows * cols, 7);
        for mask in [
            Mask::full(rows, cols).unwrap(),
            Mask::from_fn(rows, cols, |row, col| (row / 8 + col) % 2 == 0).unwrap(),
            Mask::from_fn(rows, cols, |row, col| (row * 7 + col * 5) % 3 == 0).unwrap(),
        ] {
            let weights = Mat::from_fn(cols, rows, |col, row| match mask.get(row, col) {
                true => dense[row * cols + col],
                false => 0.0,
            });
            for integers in [Integers::Int4, Integers::Int8] {
                let is_packed = mask.kept() < rows * cols;
                let (found, scales) = rounded(&damped, &weights, &mask, is_packed, integers);
                let block = scales.block().min(cols);
                let mut nearest = Mat::zeros(cols, rows);
                for row in 0..rows {
                    for from in (0..cols).step_by(block) {
                        let range = from..(from + block).min(cols);
                        let kept = range.clone().filter(|&col| mask.get(row, col));
                        let values: Vec<f32> = kept.map(|col| weights[(col, row)] as f32).collect();
                        let scale = integers.scale(&values);
                        for col in range {
                            let integer =
                                integers.rounding(scale).integer(weights[(col, row)] as f32);
                            nearest[(col, row)] = f64::from(f32::from(integer) * scale);
                            // Rounding a value again does not change it.
                            let value = found[(col, row)] as f32;
                            let integer = scales.rounding(row, col).integer(value);
                            assert_eq!(f32::from(integer) * scales.at(row, col), value);
                            assert!(mask.get(row, col) || value == 0.0);
                        }
                    }
                }
                let (ours, theirs) =
                    (error(&damped, &found, &weights), error(&damped, &nearest, &weights));
                assert!(ours.powi(2) < 0.75 * theirs.powi(2), "{integers:?}: {ours} {theirs}");
            }
        }
    }

    #[test]
    fn rows_without_weights_and_dead_inputs_become_zeros() {
        let damped = Damped::new(&Mat::zeros(5, 5), 0.01, Par::Seq);
        let mask = Mask::from_fn(3, 5, |row, _| row == 1).unwrap();
        let weights = Mat::from_fn(5, 3, |_, row| if row == 1 { 0.5 } else { 0.0 });
        let (found, scales) = rounded(&damped, &weights, &mask, true, Integers::Int4);
        let near = |row, col| (found[(col, row)] - weights[(col, row)]).abs() < 0.01;
        assert!((0..3).all(|row| (0..5).all(|col| near(row, col))));
        assert_eq!([scales.at(0, 0), scales.at(2, 4)], [0.0; 2]);
    }
}
