use faer::Mat;

use super::Saliency;
use super::factor::Damped;

impl Saliency {
    /// Scores all weights, `[cols, rows]`; returns the scores row by row.
    pub(super) fn scores(self, weights: &Mat<f64>, damped: &Damped, second: &Mat<f64>) -> Vec<f32> {
        let n = weights.nrows();
        let factors: Vec<f64> = match self {
            Self::Magnitude => vec![1.0; n],
            Self::Wanda => (0..n).map(|j| second[(j, j)].max(0.0).sqrt()).collect(),
            Self::Obs => {
                let inverse = damped.inverse();
                (0..n).map(|j| 1.0 / inverse[(j, j)]).collect()
            }
        };
        let score = |weight: f64, factor: f64| match self {
            Self::Magnitude | Self::Wanda => weight.abs() * factor,
            Self::Obs => weight * weight * factor,
        };
        let rows = (0..weights.ncols()).map(|row| weights.col(row));
        rows.flat_map(|row| {
            row.iter().zip(&factors).map(|(w, f)| score(*w, *f) as f32).collect::<Vec<_>>()
        })
        .collect()
    }
}

/// Replaces scores by their rank within their row, so that every row keeps the same number.
pub(super) fn rank_within_rows(scores: &mut [f32], cols: usize) {
    for row in scores.chunks_exact_mut(cols) {
        let mut rising: Vec<usize> = (0..cols).collect();
        // The first of equal scores ranks highest, as in every projection.
        rising.sort_by(|&a, &b| row[a].total_cmp(&row[b]).then(b.cmp(&a)));
        for (rank, at) in rising.into_iter().enumerate() {
            row[at] = rank as f32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_start_anew_in_every_row_and_the_first_of_equals_is_highest() {
        let mut scores = [5.0, 1.0, 5.0, 0.1, 0.3, 0.2];
        rank_within_rows(&mut scores, 3);
        assert_eq!(scores, [2.0, 0.0, 1.0, 0.0, 2.0, 1.0]);
    }
}
