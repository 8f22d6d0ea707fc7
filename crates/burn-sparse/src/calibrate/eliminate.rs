//! Selection of the columns that a group of rows keeps, while the remaining columns compensate for the dropped ones.

use burn_sparse_pattern::{Mask, PatternError, RowOrder};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use rayon::prelude::*;

use super::factor::{Damped, Factor};

/// Number of stages in which a group drops its columns. One column at a time would be the best greedy choice; the error with 16
/// stages is within a percent of it, and products of many columns are fast.
const STAGES: usize = 16;

/// Chooses the columns of every group of `vector` rows by backward elimination: each stage drops those of least saliency
/// `Σ w² / [H⁻¹]ⱼⱼ` over the group's rows, and updates the weights and `H⁻¹` to those of the remaining columns (Optimal Brain
/// Surgeon for columns that rows share). A group keeps as many columns as in `first`.
///
/// `target` is `[cols, rows]`.
///
/// # Errors
/// Returns an error when the matrix is too large to index.
pub(super) fn eliminate(
    damped: &Damped,
    target: &Mat<f64>,
    first: &Mask,
    order: &RowOrder,
    vector: usize,
) -> Result<Mask, PatternError> {
    let inverse = damped.inverse();
    let groups: Vec<&[u32]> = order.groups(vector).collect();
    let columns: Vec<Vec<usize>> = groups
        .par_iter()
        .map(|rows| {
            let chosen: Vec<usize> = first.row_columns(rows[0] as usize).collect();
            let weights = Mat::from_fn(target.nrows(), rows.len(), |col, row| {
                target[(col, rows[row] as usize)]
            });
            // `None` only because of rounding errors; then the choice by scores stays.
            kept_columns(inverse, weights, chosen.len()).unwrap_or(chosen)
        })
        .collect();
    let mut keep = vec![false; first.rows() * first.cols()];
    for (rows, columns) in groups.iter().zip(&columns) {
        for &row in *rows {
            for col in columns {
                keep[row as usize * first.cols() + col] = true;
            }
        }
    }
    Mask::from_fn(first.rows(), first.cols(), |row, col| keep[row * first.cols() + col])
}

/// Columns of a group, some of them dropped. The inverse of the remaining columns is computed only where the choice needs it:
/// its diagonal, and the columns that are dropped next. The inverse of all columns is shared by all groups.
struct Elimination<'a> {
    /// `H⁻¹` of all columns.
    inverse: &'a Mat<f64>,
    /// All columns, the remaining ones first.
    columns: Vec<usize>,
    /// Number of remaining columns.
    left: usize,
    /// Diagonal of the inverse of the remaining columns, in the order of `columns`.
    diagonal: Vec<f64>,
    /// Weights of the remaining columns, which compensate for the dropped ones: `[columns, rows]`, in the order of `columns`.
    weights: Mat<f64>,
    /// `A`, `[dropped, columns]`: the inverse of the remaining columns is their part of `H⁻¹ - Aᵀ A`. A column's values are
    /// contiguous, so that columns change places quickly.
    factors: Mat<f64>,
}

impl<'a> Elimination<'a> {
    /// Starts with all columns, of which at most `most` will be dropped.
    fn new(inverse: &'a Mat<f64>, weights: Mat<f64>, most: usize) -> Self {
        let cols = weights.nrows();
        Self {
            inverse,
            columns: (0..cols).collect(),
            left: cols,
            diagonal: (0..cols).map(|col| inverse[(col, col)]).collect(),
            weights,
            factors: Mat::zeros(most, cols),
        }
    }

    /// Drops the `count` columns of least saliency; `None` if rounding makes that impossible.
    fn drop(&mut self, count: usize) -> Option<()> {
        let (before, done) = (self.left, self.columns.len() - self.left);
        self.left -= count;
        self.move_least_to_the_end(before);
        // Rows of the inverse to drop, in the columns that remained before: a step of a left-looking block Cholesky
        // factorization, which updates no matrix of all columns.
        let (columns, dropped) = (&self.columns[..before], &self.columns[self.left..before]);
        let mut across = Mat::zeros(count, before);
        for (at, &col) in columns.iter().enumerate() {
            let from = self.inverse.col_as_slice(col);
            let to = across.col_as_slice_mut(at);
            to.iter_mut().zip(dropped).for_each(|(to, &row)| *to = from[row]);
        }
        let known = self.factors.submatrix(0, 0, done, before);
        let pivots = known.subcols(self.left, count);
        matmul(across.as_mut(), Accum::Add, pivots.transpose(), known, -1.0, Par::Seq);
        let factor = Factor::new(across.subcols(self.left, count).to_owned(), Par::Seq)?;
        factor.solve_lower(across.subcols_mut(0, self.left), Par::Seq);

        let mut lost = self.weights.subrows(self.left, count).to_owned();
        factor.solve_lower(lost.as_mut(), Par::Seq);
        let kept = self.weights.subrows_mut(0, self.left);
        let of_kept = across.subcols(0, self.left);
        matmul(kept, Accum::Add, of_kept.transpose(), &lost, -1.0, Par::Seq);
        for at in 0..self.left {
            let values = across.col_as_slice(at);
            self.diagonal[at] -= values.iter().map(|value| value * value).sum::<f64>();
            self.factors.col_as_slice_mut(at)[done..done + count].copy_from_slice(values);
        }
        Some(())
    }

    /// Reorders the first `before` columns so that those of least saliency come after the remaining ones.
    fn move_least_to_the_end(&mut self, before: usize) {
        let (rows, done) = (self.weights.ncols(), self.columns.len() - before);
        let saliency = |at: usize| {
            let squares: f64 = (0..rows).map(|row| self.weights[(at, row)].powi(2)).sum();
            squares / self.diagonal[at]
        };
        let mut ranked: Vec<(f64, usize)> = (0..before).map(|at| (saliency(at), at)).collect();
        // The last of equal columns is dropped first.
        let columns = &self.columns;
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(columns[b.1].cmp(&columns[a.1])));
        let mut least: Vec<usize> = ranked.iter().take(before - self.left).map(|r| r.1).collect();
        // Starts from the last, so that no column moves to a place that another one has yet to leave.
        least.sort_unstable();
        for (at, to) in least.into_iter().rev().zip((self.left..before).rev()) {
            if at == to {
                continue;
            }
            self.columns.swap(at, to);
            self.diagonal.swap(at, to);
            for row in 0..rows {
                self.weights.col_as_slice_mut(row).swap(at, to);
            }
            let (a, b) = self.factors.two_cols_mut(at, to);
            for (a, b) in a.iter_mut().zip(b.iter_mut()).take(done) {
                std::mem::swap(a, b);
            }
        }
    }
}

/// Drops columns until `count` remain, and returns these in ascending order.
fn kept_columns(inverse: &Mat<f64>, weights: Mat<f64>, count: usize) -> Option<Vec<usize>> {
    let most = weights.nrows() - count;
    let step = most.div_ceil(STAGES);
    let mut elimination = Elimination::new(inverse, weights, most);
    while elimination.left > count {
        elimination.drop(step.min(elimination.left - count))?;
    }
    let mut kept = elimination.columns;
    kept.truncate(count);
    kept.sort_unstable();
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_left_have_their_own_inverse_and_the_weights_of_least_squares() {
        let gram = Mat::from_fn(13, 13, |i, j| 0.8_f64.powi(i.abs_diff(j) as i32));
        let target = Mat::from_fn(13, 4, |i, j| ((i * 7 + j * 5) % 11) as f64 - 5.0);
        let damped = Damped::new(&gram, 1e-3, Par::Seq);
        let mut found = Elimination::new(damped.inverse(), target.clone(), 8);
        found.drop(4).and_then(|()| found.drop(3)).unwrap();
        assert_eq!(found.left, 6);
        let left = &found.columns[..6];
        let own = Mat::from_fn(6, 6, |i, j| damped.matrix[(left[i], left[j])]);
        let own_damped = Damped::new(&own, 0.0, Par::Seq);
        let own_inverse = own_damped.inverse();
        let goal = &damped.matrix * &target;
        let outputs = &own * found.weights.subrows(0, 6);
        for i in 0..6 {
            assert!((own_inverse[(i, i)] - found.diagonal[i]).abs() < 1e-9);
            for row in 0..4 {
                assert!((outputs[(i, row)] - goal[(left[i], row)]).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn of_two_columns_that_do_the_same_one_is_kept() {
        let gram = Mat::from_fn(4, 4, |i, j| match (i, j) {
            (0, 1) | (1, 0) => 0.999,
            _ if i == j => 1.0,
            _ => 0.0,
        });
        let damped = Damped::new(&gram, 0.0, Par::Seq);
        let weights = Mat::from_fn(4, 1, |i, _| [1.0, 1.0, 0.5, 0.4][i]);
        // By their first saliencies, both would go.
        let kept = kept_columns(damped.inverse(), weights, 2).unwrap();
        assert_eq!(kept, [0, 2]);
    }
}
