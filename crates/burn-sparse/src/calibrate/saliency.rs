use faer::Mat;

use super::Saliency;
use super::factor::{Damped, threads};

impl Saliency {
    /// Scores all weights, `[cols, rows]`; returned row by row.
    pub(super) fn scores(self, weights: &Mat<f64>, damped: &Damped, second: &Mat<f64>) -> Vec<f32> {
        let n = weights.nrows();
        let factors: Vec<f64> = match self {
            Self::Magnitude => vec![1.0; n],
            Self::Wanda => (0..n).map(|j| second[(j, j)].max(0.0).sqrt()).collect(),
            Self::Obs => {
                let inverse = damped.factor.inverse(threads());
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
