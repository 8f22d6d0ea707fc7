use burn_sparse_pattern::{Pattern, PatternError, Projection, RowOrder, Scores, Start};

use super::grow::DropAndGrow;
use super::state::{Change, WeightState};
use crate::prune::{PlannedWeight, Regroup, Regrow};

/// Relative effort of a row order search during the ramp, since the next update searches again.
const RAMP_EFFORT: f64 = 0.1;

/// Search for the next mask of a weight.
pub(super) struct MaskSearch<'a> {
    pub(super) weight: &'a PlannedWeight,
    pub(super) state: &'a WeightState,
    pub(super) seed: u64,
    pub(super) step: usize,
}

impl MaskSearch<'_> {
    /// Finds the mask of this sparsity from scores, and from growth scores if weights may grow; both in the order the layer
    /// stores its weights.
    pub(super) fn project(
        &self,
        scores: &[f32],
        growth: Option<&[f32]>,
        sparsity: f64,
    ) -> Result<Change, PatternError> {
        let Self { weight, state, .. } = self;
        let (rows, cols) = (weight.view.rows(), weight.view.cols());
        let scores = weight.view.to_matrix(scores);
        let order = RowOrder::new(state.row_order.clone())?;
        let found = match (weight.regrow, growth) {
            (Regrow::Grow(growth), Some(ranks)) => {
                let ranks = weight.view.to_matrix(ranks);
                // Validates growth scores in the same way as scores.
                Scores::new(rows, cols, &ranks)?;
                let (pattern, scores) = (&weight.pattern, scores.as_slice());
                let update =
                    DropAndGrow { pattern, order: &order, rows, cols, scores, growth: &ranks };
                update.project(sparsity, growth.share(weight.schedule.progress(self.step)))?
            }
            _ => self.keep_most(&Scores::new(rows, cols, &scores)?, &order, sparsity)?,
        };
        let row_order = found.row_order.map_or(state.row_order.clone(), |o| o.as_slice().to_vec());
        let keep = weight.view.to_stored(&found.mask.to_bytes());
        let surviving = match weight.regrow.is_hard() {
            // Momentum may have moved dropped weights, but grown weights must start at zero.
            true => Some(keep.iter().zip(&state.keep).map(|(new, old)| new & old).collect()),
            false => (self.step == weight.schedule.end).then(|| keep.clone()),
        };
        Ok(Change { keep, row_order, surviving })
    }

    /// Finds the mask that keeps the most score, in the current row order or in a new one.
    fn keep_most(
        &self,
        scores: &Scores<'_>,
        order: &RowOrder,
        sparsity: f64,
    ) -> Result<Projection, PatternError> {
        let Self { weight, state, seed, step } = *self;
        let pattern: &Pattern = &weight.pattern;
        let search = |start, effort| burn_sparse_pattern::Search {
            seed,
            start,
            effort,
            ..burn_sparse_pattern::Search::default()
        };
        let effort = if step < weight.schedule.end { RAMP_EFFORT } else { 1.0 };
        // There is no order to continue from before the first weights are dropped.
        let dropped = state.keep.contains(&0);
        // A row that moved to a group with other columns would regain dropped weights.
        let fixed = weight.regrow.is_hard() || weight.regroup == Regroup::FirstUpdate;
        match (fixed, dropped) {
            (true, true) => pattern.project(scores, sparsity, &search(Start::Fixed(order), 1.0)),
            (false, true) => pattern.project(scores, sparsity, &search(Start::Warm(order), effort)),
            // The order found now is final, so it must suit the target sparsity.
            (true, false) if pattern.has_row_order() => {
                let target = weight.schedule.target;
                let found = pattern.project(scores, target, &search(Start::Cold, 1.0))?;
                let order = found.row_order.unwrap_or(RowOrder::identity(scores.rows()));
                pattern.project(scores, sparsity, &search(Start::Fixed(&order), 1.0))
            }
            (_, false) => pattern.project(scores, sparsity, &search(Start::Cold, effort)),
        }
    }
}
