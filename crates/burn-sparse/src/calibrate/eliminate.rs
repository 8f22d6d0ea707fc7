//! Selection of the columns that a group of rows keeps, while those that are left make up for what was dropped.

use burn_sparse_pattern::{Mask, PatternError, RowOrder};
use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};
use rayon::prelude::*;

use super::factor::{Damped, Factor, threads};

/// Stages in which a group drops its columns. One at a time would be the best greedy choice; the error with 16 stages is
/// within a percent of it, and products of many columns are fast.
const STAGES: usize = 16;

/// Chooses the columns of every group of `vector` rows by backward elimination: in each stage those of least saliency
/// `Σ w² / [H⁻¹]ⱼⱼ` over the group's rows are dropped, and weights and `H⁻¹` become those of the columns that are left
/// (Optimal Brain Surgeon for columns that rows share). A group keeps as many columns as in `first`.
///
/// `target` is `[cols, rows]`.
///
/// # Errors
/// When the matrix is too large to index.
pub(super) fn eliminate(
    damped: &Damped,
    target: &Mat<f64>,
    first: &Mask,
    order: &RowOrder,
    vector: usize,
) -> Result<Mask, PatternError> {
    let inverse = damped.factor.inverse(threads());
    let groups: Vec<&[u32]> = order.groups(vector).collect();
    let columns: Vec<Vec<usize>> = groups
        .par_iter()
        .map(|rows| {
            let chosen: Vec<usize> = first.row_columns(rows[0] as usize).collect();
            let weights = Mat::from_fn(target.nrows(), rows.len(), |col, row| {
                target[(col, rows[row] as usize)]
            });
            // `None` only if rounding decides; then the scores' choice stays.
            kept_columns(inverse.clone(), weights, chosen.len()).unwrap_or(chosen)
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

/// Columns that a group still has.
struct Remaining {
    columns: Vec<usize>,
    /// `H⁻¹` of these columns.
    inverse: Mat<f64>,
    /// Their weights, which make up for the dropped ones: `[columns, rows]`.
    weights: Mat<f64>,
}

impl Remaining {
    /// Drops the `count` columns of least saliency; `None` if rounding makes that impossible.
    fn drop(&self, count: usize) -> Option<Self> {
        let rows: Vec<usize> = (0..self.weights.ncols()).collect();
        let saliency = |at: usize| {
            let squares: f64 = rows.iter().map(|&row| self.weights[(at, row)].powi(2)).sum();
            squares / self.inverse[(at, at)]
        };
        let mut ranked: Vec<(f64, usize)> =
            (0..self.columns.len()).map(|at| (saliency(at), at)).collect();
        // Of equal columns the last is dropped first.
        ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
        let (dropped, left) = ranked.split_at(count.min(ranked.len()));
        let dropped: Vec<usize> = dropped.iter().map(|&(_, at)| at).collect();
        let mut left: Vec<usize> = left.iter().map(|&(_, at)| at).collect();
        left.sort_unstable();

        let inverse = |rows: &[usize], cols: &[usize]| part(&self.inverse, rows, cols);
        let factor = Factor::new(inverse(&dropped, &dropped), Par::Seq)?;
        let across = inverse(&left, &dropped);
        let mut lost = part(&self.weights, &dropped, &rows);
        factor.solve(lost.as_mut(), Par::Seq);
        let mut solved = across.transpose().to_owned();
        factor.solve(solved.as_mut(), Par::Seq);

        let mut weights = part(&self.weights, &left, &rows);
        matmul(weights.as_mut(), Accum::Add, &across, &lost, -1.0, Par::Seq);
        let mut next = inverse(&left, &left);
        matmul(next.as_mut(), Accum::Add, &across, &solved, -1.0, Par::Seq);
        let columns = left.iter().map(|&at| self.columns[at]).collect();
        Some(Self { columns, inverse: next, weights })
    }
}

fn part(matrix: &Mat<f64>, rows: &[usize], cols: &[usize]) -> Mat<f64> {
    let mut part = Mat::zeros(rows.len(), cols.len());
    for (at, &col) in cols.iter().enumerate() {
        let from = matrix.col_as_slice(col);
        part.col_as_slice_mut(at).iter_mut().zip(rows).for_each(|(to, &row)| *to = from[row]);
    }
    part
}

/// Drops columns until `count` are left, and returns these.
fn kept_columns(inverse: Mat<f64>, weights: Mat<f64>, count: usize) -> Option<Vec<usize>> {
    let mut remaining = Remaining { columns: (0..weights.nrows()).collect(), inverse, weights };
    let step = (remaining.columns.len() - count).div_ceil(STAGES);
    while remaining.columns.len() > count {
        remaining = remaining.drop(step.min(remaining.columns.len() - count))?;
    }
    Some(remaining.columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_that_are_left_have_their_own_inverse_and_the_weights_of_least_squares() {
        let gram = Mat::from_fn(13, 13, |i, j| 0.8_f64.powi(i.abs_diff(j) as i32));
        let target = Mat::from_fn(13, 4, |i, j| ((i * 7 + j * 5) % 11) as f64 - 5.0);
        let damped = Damped::new(&gram, 1e-3, Par::Seq);
        let inverse = damped.factor.inverse(Par::Seq);
        let all = Remaining { columns: (0..13).collect(), inverse, weights: target.clone() };
        let left = all.drop(4).and_then(|left| left.drop(3)).unwrap();
        assert_eq!(left.columns.len(), 6);
        let own = part(&damped.matrix, &left.columns, &left.columns);
        let identity = &own * &left.inverse;
        let goal = &damped.matrix * &target;
        let found = &own * &left.weights;
        for i in 0..6 {
            for j in 0..6 {
                assert!((identity[(i, j)] - f64::from(i == j)).abs() < 1e-9);
            }
            for row in 0..4 {
                assert!((found[(i, row)] - goal[(left.columns[i], row)]).abs() < 1e-9);
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
        let kept = kept_columns(damped.factor.inverse(Par::Seq), weights, 2).unwrap();
        assert_eq!(kept, [0, 2]);
    }
}
