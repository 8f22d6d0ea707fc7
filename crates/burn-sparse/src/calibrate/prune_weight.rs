//! Pruning of one weight by the inputs of its layer.

use burn_sparse_pattern::format::Scales;
use burn_sparse_pattern::{Mask, Pattern, PatternError, Projection, RowOrder, Scores, Search};
use faer::Mat;

use super::eliminate::eliminate;
use super::factor::{Damped, threads};
use super::gram::Moments;
use super::repair::{Outputs, least_squares, masked};
use super::rounding::rounded;
use super::saliency::rank_within_rows;
use super::sweep::{sweep, width};
use super::{CalibrateConfig, Saliency};

/// Relative effort of a row order search: a full search spends two thirds of its time on the last thousandth of the kept score,
/// which changes no model's metric by more than the seed does.
const EFFORT: f64 = 0.3;

/// A weight and how to prune it.
pub(super) struct Task<'a> {
    /// `[cols, rows]`: a column for each row of the weight's matrix.
    pub(super) weights: Mat<f64>,
    pub(super) bias: Option<Vec<f64>>,
    pub(super) pattern: Pattern,
    /// Share of zeros; 0 keeps all weights.
    pub(super) sparsity: f64,
    /// `true` if the weight will be stored packed, even if all of it is kept.
    pub(super) packs: bool,
    pub(super) seed: u64,
    pub(super) config: &'a CalibrateConfig,
}

/// A pruned weight.
pub(super) struct Solution {
    /// `[cols, rows]`.
    pub(super) weights: Mat<f64>,
    pub(super) bias: Option<Vec<f64>>,
    pub(super) projection: Projection,
    /// Scales of the weights, if they are integers.
    pub(super) scales: Option<Scales>,
    /// Relative error of the outputs with the mask alone.
    pub(super) masked: f64,
    /// Relative error of the outputs.
    pub(super) left: f64,
}

impl Task<'_> {
    /// Prunes the weight. `damped` is the factor of the second moments.
    pub(super) fn solve(
        &self,
        moments: &Moments,
        damped: &Damped,
    ) -> Result<Solution, PatternError> {
        let target = self.target(moments, damped);
        let projection = self.project(&target, moments, damped)?;
        let mask = &projection.mask;
        let before = masked(&target, mask);
        let outputs = Outputs::new(&moments.second, &target);
        let masked = outputs.relative_error(&before);
        let weights = match self.config.repair() {
            true => least_squares(damped, &outputs, mask),
            false => before,
        };
        let (weights, scales) = match self.config.values() {
            Some(integers) => {
                let (weights, scales) = rounded(damped, &weights, mask, self.packs, integers);
                (weights, Some(scales))
            }
            None => (weights, None),
        };
        let bias = match self.config.repair() {
            true => self.bias.as_ref().map(|bias| self.repaired_bias(bias, &weights, moments)),
            false => self.bias.clone(),
        };
        let left = match (self.config.repair(), self.config.values()) {
            (false, None) => masked,
            _ => outputs.relative_error(&weights),
        };
        Ok(Solution { weights, bias, projection, scales, masked, left })
    }

    /// Returns the dense weights whose outputs are the target: those of the layer, adjusted so that its outputs on the pruned
    /// model's inputs come closer to those of the dense model. With share `s`, pruned inputs `x` and dense inputs `y`, the
    /// least-squares solution of `Vᵀ x ≈ Wᵀ (s y + (1 - s) x)` is `V = W + s (H + λI)⁻¹ E x (y - x)ᵀ W`.
    fn target(&self, moments: &Moments, damped: &Damped) -> Mat<f64> {
        let share = self.config.toward_dense();
        // Without repair, reconstruction starts from the layer's own weights.
        let Some(away) = moments.dense.as_ref().filter(|_| self.config.repair()) else {
            return self.weights.clone();
        };
        let mut moved = &away.second * &self.weights;
        damped.factor.solve(moved.as_mut(), threads());
        Mat::from_fn(moved.nrows(), moved.ncols(), |i, j| {
            self.weights[(i, j)] + share * moved[(i, j)]
        })
    }

    fn project(
        &self,
        target: &Mat<f64>,
        moments: &Moments,
        damped: &Damped,
    ) -> Result<Projection, PatternError> {
        let (cols, rows) = (target.nrows(), target.ncols());
        if self.sparsity == 0.0 {
            let row_order = self.pattern.has_row_order().then(|| RowOrder::identity(rows));
            return Ok(Projection { mask: Mask::full(rows, cols)?, row_order });
        }
        let mut scores = self.config.score().scores(target, damped, &moments.second);
        if self.config.score() == Saliency::Wanda && self.pattern == (Pattern::Unstructured {}) {
            rank_within_rows(&mut scores, cols);
        }
        let scores = Scores::new(rows, cols, &scores)?;
        let search = Search { seed: self.seed, effort: EFFORT, ..Search::default() };
        let first = self.pattern.project(&scores, self.sparsity, &search)?;
        if !self.config.repair() || self.config.score() != Saliency::Obs {
            return Ok(first);
        }
        // Dropping weights changes the saliency of the others: from here on, columns compensate for each other.
        match self.pattern {
            Pattern::VectorWise { vector, .. } | Pattern::ShflBw { vector, .. } => {
                let identity = RowOrder::identity(rows);
                let order = first.row_order.as_ref().unwrap_or(&identity);
                let mask = eliminate(damped, target, &first.mask, order, vector)?;
                Ok(Projection { mask, row_order: first.row_order })
            }
            pattern => match width(pattern) {
                None => Ok(first),
                Some(width) => {
                    let by_row = pattern != Pattern::Unstructured {};
                    let mask: Mask = sweep(damped, target, &first.mask, width, by_row)?;
                    Ok(Projection { mask, row_order: None })
                }
            },
        }
    }

    /// Returns the bias for which the mean of the outputs equals that of the target.
    fn repaired_bias(&self, bias: &[f64], repaired: &Mat<f64>, moments: &Moments) -> Vec<f64> {
        let share = match self.config.needs_dense() {
            true => self.config.toward_dense(),
            false => 0.0,
        };
        let mean = |col: usize| match &moments.dense {
            Some(away) => moments.mean[col] + share * away.mean[col],
            None => moments.mean[col],
        };
        let wanted: Vec<f64> = (0..moments.mean.len()).map(mean).collect();
        let output = |weights: &Mat<f64>, row: usize, inputs: &[f64]| -> f64 {
            weights.col(row).iter().zip(inputs).map(|(w, x)| w * x).sum()
        };
        let one = |(row, bias): (usize, &f64)| {
            bias + output(&self.weights, row, &wanted) - output(repaired, row, &moments.mean)
        };
        bias.iter().enumerate().map(one).collect()
    }
}
