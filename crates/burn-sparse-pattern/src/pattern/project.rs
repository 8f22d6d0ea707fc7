//! From scores to the mask that keeps most of them.

use crate::grouping::{self, Search};
use crate::pattern::kinds::hinm::{self, Inner};
use crate::pattern::kinds::{balanced, block_wise, unstructured, vector_wise};
use crate::{Mask, Pattern, PatternError, RowOrder, Scores};

/// What [`Pattern::project`] found.
#[derive(Debug, Clone, PartialEq)]
pub struct Projection {
    /// The kept weights.
    pub mask: Mask,
    /// The row order that makes groups adjacent; only `shfl-bw` and `hinm` have one.
    pub row_order: Option<RowOrder>,
}

impl Pattern {
    /// The mask of this pattern that keeps the most score at `sparsity`: exact for all patterns but
    /// `shfl-bw` and `hinm`, whose row order is searched as [`Search`] says, and whose inner pattern is
    /// applied to the best vectors.
    ///
    /// Counted units keep the nearest whole count; equal scores keep the lower index.
    ///
    /// # Errors
    /// When the sparsity keeps nothing, or a parameter is out of range.
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
                let keep = vector_wise::Keep::new(equal_groups, kept);
                vector_wise::project(scores, vector, keep, &order)
            }
            Self::ShflBw { vector, equal_groups } => {
                let keep = vector_wise::Keep::new(equal_groups, kept);
                let order = grouping::search(scores, vector, keep, search)?;
                let mask = vector_wise::project(scores, vector, keep, &order);
                return Ok(Projection { mask, row_order: Some(order) });
            }
            Self::Hinm { vector, keep, of } => {
                // Which vectors are kept decides; what is dropped inside them is close to a fixed share
                // of each, so the order is searched for whole vectors.
                let inner = Inner { keep, of };
                let columns = (inner.runs(scores.cols(), sparsity)? * of).min(scores.cols());
                let kept = vector_wise::Keep::PerGroup(columns);
                let order = grouping::search(scores, vector, kept, search)?;
                let mask = hinm::project(scores, vector, inner, sparsity, &order)?;
                return Ok(Projection { mask, row_order: Some(order) });
            }
        };
        Ok(Projection { mask, row_order: None })
    }
}
