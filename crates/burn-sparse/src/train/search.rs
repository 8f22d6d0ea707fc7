use burn_sparse_pattern::{Pattern, PatternError, Projection, RowOrder, Scores, Start};

use super::gather::{Change, State};
use super::grow::Moving;
use crate::plan::PlannedWeight;
use crate::recipe::{Regroup, Regrow};

/// How much of a search an update along a ramp makes: the next one searches again.
const HASTE: f64 = 0.1;

/// The search for a weight's next mask.
pub(super) struct Search<'a> {
    pub(super) weight: &'a PlannedWeight,
    pub(super) state: &'a State,
    pub(super) seed: u64,
    pub(super) step: usize,
}

impl Search<'_> {
    /// The mask of this sparsity, by scores, and by growth where weights move; both in the order the layer
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
                // What cannot be ranked is refused as scores are.
                Scores::new(rows, cols, &ranks)?;
                let (pattern, scores) = (&weight.pattern, scores.as_slice());
                let moving = Moving { pattern, order: &order, rows, cols, scores, growth: &ranks };
                moving.project(sparsity, growth.share(weight.schedule.progress(self.step)))?
            }
            _ => self.keep_most(&Scores::new(rows, cols, &scores)?, &order, sparsity)?,
        };
        let row_order = found.row_order.map_or(state.row_order.clone(), |o| o.as_slice().to_vec());
        let keep = weight.view.to_stored(&found.mask.to_bytes());
        let stays = match weight.regrow.is_hard() {
            // Momentum moves dropped weights a little on: what grows starts at zero all the same.
            true => Some(keep.iter().zip(&state.keep).map(|(new, old)| new & old).collect()),
            false => (self.step == weight.schedule.end).then(|| keep.clone()),
        };
        Ok(Change { keep, row_order, stays, state_stays: None })
    }

    /// The mask that keeps the most score, in the row order there is or one that is searched.
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
        let effort = if step < weight.schedule.end { HASTE } else { 1.0 };
        // Until something has been dropped there is no order to go on from.
        let dropped = state.keep.contains(&0);
        // A row that moved to a group with other columns would get dropped weights back.
        let stays = weight.regrow.is_hard() || weight.regroup == Regroup::FirstUpdate;
        match (stays, dropped) {
            (true, true) => pattern.project(scores, sparsity, &search(Start::Fixed(order), 1.0)),
            (false, true) => pattern.project(scores, sparsity, &search(Start::Warm(order), effort)),
            // The order that is found now stays: it must be good at the end, when most is dropped.
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
