//! Projection: from scores to the mask that keeps the most of them.

use crate::grouping::{self, Keep, Search, Start};
use crate::pattern::kinds::hinm::{self, Inner};
use crate::pattern::kinds::{balanced, block_wise, unstructured, vector_wise};
use crate::{Mask, Pattern, PatternError, Retained, RowOrder, Scores};

/// Result of [`Pattern::project`].
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// Mask of the kept weights.
    pub mask: Mask,
    /// Row order that makes the rows of each group adjacent; only `shfl-bw` and `hinm` have one.
    pub row_order: Option<RowOrder>,
}

impl Pattern {
    /// Computes the mask of this pattern that keeps the highest total score at `sparsity`. The mask is
    /// optimal for all patterns except `shfl-bw` and `hinm`, whose row order is searched as configured
    /// by [`Search`]; the inner pattern of `hinm` is applied to the best vectors.
    ///
    /// Counts are rounded to the nearest whole number; of equal scores, the one with the lower index is
    /// kept.
    ///
    /// # Errors
    /// Returns an error if the sparsity keeps nothing, or a parameter is out of range.
    pub fn project(
        &self,
        scores: &Scores<'_>,
        sparsity: f64,
        search: &Search<'_>,
    ) -> Result<Projection, PatternError> {
        self.validate()?;
        let kept = self.unit(scores.rows(), scores.cols()).kept(sparsity)?;
        let mask = match *self {
            Self::Unstructured {} => unstructured::project(scores, kept),
            Self::Balanced { block } | Self::NOfM { of: block, .. } => {
                let counts = balanced::Counts::new(scores.cols(), block, sparsity, kept);
                balanced::project(scores, &counts)
            }
            Self::BlockWise { block } => block_wise::project(scores, block, kept),
            Self::VectorWise { vector, equal_groups } => {
                let order = RowOrder::identity(scores.rows());
                let keep = Keep::new(equal_groups, kept);
                vector_wise::project(scores, vector, keep, &order)
            }
            Self::ShflBw { vector, equal_groups } => {
                let keep = Keep::new(equal_groups, kept);
                let order = grouping::search(scores, vector, keep, search)?;
                let mask = vector_wise::project(scores, vector, keep, &order);
                return Ok(Projection { mask, row_order: Some(order) });
            }
            Self::Hinm { vector, keep, of } => {
                // The score depends mostly on which vectors are kept; the inner pattern drops nearly
                // the same share of each, so the order is searched for whole vectors.
                let inner = Inner { keep, of };
                let columns = (inner.runs(scores.cols(), sparsity)? * of).min(scores.cols());
                let kept = Keep::PerGroup(columns);
                let order = grouping::search(scores, vector, kept, search)?;
                let mask = hinm::project(scores, vector, inner, sparsity, &order)?;
                let found = Projection { mask, row_order: Some(order) };
                let Start::Warm(before) = search.start else { return Ok(found) };
                // Orders that keep equal vectors may differ in what the inner pattern drops of them.
                let mask = hinm::project(scores, vector, inner, sparsity, before)?;
                let kept = |mask: &Mask| -> Result<f64, PatternError> {
                    Ok(Retained::measure(scores.values(), mask)?.l1)
                };
                let gains = kept(&found.mask)? > kept(&mask)?;
                let former = Projection { mask, row_order: Some(before.clone()) };
                return Ok(if gains { found } else { former });
            }
        };
        Ok(Projection { mask, row_order: None })
    }
}
