//! Selection of single weights, while later ones compensate for the dropped ones.

use burn_sparse_pattern::{Mask, Pattern, PatternError};
use faer::Mat;
use rayon::prelude::*;

use super::factor::{Damped, threads, upper_factor_of_inverse};

/// Returns the number of columns that are selected together: those that share a budget, or a run of columns if the whole matrix
/// shares one. `None` for patterns whose rows do not choose independently.
pub(super) fn width(pattern: Pattern) -> Option<usize> {
    match pattern {
        Pattern::Unstructured {} => Some(128),
        Pattern::Balanced { block } | Pattern::NOfM { of: block, .. } => Some(block),
        _ => None,
    }
}

/// Chooses kept weights by the sweep of SparseGPT (Frantar and Alistarh, ICML 2023, Algorithm 1): from the first block of
/// columns to the last, the weights of least saliency are dropped, and all later weights compensate for them before the next
/// block is chosen. Every block keeps as many weights as in `first`, and if `by_row`, so does each of its rows.
///
/// `target` is `[cols, rows]`.
///
/// # Errors
/// Returns an error when the matrix is too large to index.
pub(super) fn sweep(
    damped: &Damped,
    target: &Mat<f64>,
    first: &Mask,
    width: usize,
    by_row: bool,
) -> Result<Mask, PatternError> {
    let (rows, cols) = (first.rows(), first.cols());
    let upper = upper_factor_of_inverse(&damped.matrix, threads());
    let mut weights: Vec<Vec<f64>> =
        (0..rows).map(|row| target.col(row).iter().copied().collect()).collect();
    let mut keep = vec![vec![false; cols]; rows];
    for from in (0..cols).step_by(width) {
        let to = (from + width).min(cols);
        let saliency = |row: &[f64]| -> Vec<f64> {
            (from..to).map(|col| (row[col] / upper[col][col]).powi(2)).collect()
        };
        let saliencies: Vec<Vec<f64>> = weights.par_iter().map(|row| saliency(row)).collect();
        match by_row {
            true => {
                for (row, saliency) in saliencies.iter().enumerate() {
                    for at in largest(saliency, first.count_in(row, from, to)) {
                        keep[row][from + at] = true;
                    }
                }
            }
            false => {
                let count = (0..rows).map(|row| first.count_in(row, from, to)).sum();
                for at in largest(&saliencies.concat(), count) {
                    keep[at / (to - from)][from + at % (to - from)] = true;
                }
            }
        }
        weights.par_iter_mut().zip(&keep).for_each(|(row, keep)| {
            for col in from..to {
                if !keep[col] {
                    let off = row[col] / upper[col][col];
                    for (weight, u) in row[col..].iter_mut().zip(&upper[col][col..]) {
                        *weight -= off * u;
                    }
                }
            }
        });
    }
    Mask::from_fn(rows, cols, |row, col| keep[row][col])
}

/// Returns the positions of the `count` largest values; of equal ones the first.
fn largest(values: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let by_value = |a: &usize, b: &usize| values[*b].total_cmp(&values[*a]).then(a.cmp(b));
    if count == 0 {
        return Vec::new();
    }
    if count < order.len() {
        order.select_nth_unstable_by(count - 1, by_value);
        order.truncate(count);
    }
    order
}
