//! Least squares on a mask.

use std::collections::BTreeMap;

use burn_sparse_pattern::Mask;
use faer::{Mat, Par};
use rayon::prelude::*;

use super::factor::{Damped, Factor};

/// Returns the weights on `mask` whose outputs differ least from those of `target`: for a row with kept columns `K`,
/// `H[K, K]⁻¹ H[K, :] w`. Rows with the same kept columns, as the groups of Shfl-BW have, share a factorization.
///
/// The target is `[cols, rows]`: a column for each row of the weight. A row that keeps everything is returned as it is.
pub(super) fn least_squares(damped: &Damped, outputs: &Outputs<'_>, mask: &Mask) -> Mat<f64> {
    let (cols, sharing) = (mask.cols(), sharing(mask));
    let (target, product) = (outputs.target, &outputs.product);
    let right = |col, row| product[(col, row)] + damped.added * target[(col, row)];
    let solved: Vec<(&[usize], Vec<usize>, Mat<f64>)> = sharing
        .par_iter()
        .filter_map(|rows| {
            let kept: Vec<usize> = mask.row_columns(rows[0]).collect();
            let mut values = Mat::from_fn(kept.len(), rows.len(), |k, r| right(kept[k], rows[r]));
            if kept.is_empty() || kept.len() == cols {
                return None;
            }
            // A part of a positive definite matrix is positive definite, up to rounding.
            let factor = Factor::new(damped.part(&kept), Par::Seq)?;
            factor.solve(values.as_mut(), Par::Seq);
            Some((&rows[..], kept, values))
        })
        .collect();
    let mut repaired = masked(target, mask);
    for (rows, kept, values) in solved {
        for (r, &row) in rows.iter().enumerate() {
            for (k, &col) in kept.iter().enumerate() {
                repaired[(col, row)] = values[(k, r)];
            }
        }
    }
    repaired
}

/// Partitions the rows of a mask into sets that keep the same columns.
pub(super) fn sharing(mask: &Mask) -> Vec<Vec<usize>> {
    let mut sets: BTreeMap<&[u64], Vec<usize>> = BTreeMap::new();
    for row in 0..mask.rows() {
        sets.entry(mask.row(row)).or_default().push(row);
    }
    sets.into_values().collect()
}

/// Returns `target` with zeros where the mask drops weights.
pub(super) fn masked(target: &Mat<f64>, mask: &Mask) -> Mat<f64> {
    Mat::from_fn(target.nrows(), target.ncols(), |col, row| match mask.get(row, col) {
        true => target[(col, row)],
        false => 0.0,
    })
}

/// Outputs of the target, from which those of other weights differ.
pub(super) struct Outputs<'a> {
    gram: &'a Mat<f64>,
    target: &'a Mat<f64>,
    /// `H · target`.
    product: Mat<f64>,
    /// Mean square of the outputs, over all rows.
    energy: f64,
}

impl<'a> Outputs<'a> {
    pub(super) fn new(gram: &'a Mat<f64>, target: &'a Mat<f64>) -> Self {
        let product = gram * target;
        let energy = inner(target, &product);
        Self { gram, target, product, energy }
    }

    /// Returns the root mean square difference of the outputs of `weights`, relative to the outputs of the target.
    pub(super) fn relative_error(&self, weights: &Mat<f64>) -> f64 {
        let difference = weights - self.target;
        match self.energy > 0.0 {
            true => (inner(&difference, &(self.gram * &difference)) / self.energy).sqrt(),
            false => 0.0,
        }
    }
}

/// Returns `tr(aᵀ b)`, which is not negative but for rounding.
fn inner(a: &Mat<f64>, b: &Mat<f64>) -> f64 {
    let column = |at| -> f64 { a.col(at).iter().zip(b.col(at).iter()).map(|(a, b)| a * b).sum() };
    (0..a.ncols()).map(column).sum::<f64>().max(0.0)
}
