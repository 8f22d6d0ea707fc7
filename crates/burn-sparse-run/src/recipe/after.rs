use burn_sparse::prune::OptimizerState;
use serde::{Deserialize, Serialize};

/// The `[after]` table: treatment of masks and of the optimizer's state after updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct After {
    /// Masks after their last update.
    pub mask: MaskAfter,
    /// Optimizer's state (momentum, second moments) of weights that stop or start learning.
    pub optimizer_state: OptimizerState,
}

/// Treatment of masks after their last update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum MaskAfter {
    /// Masks stay; dropped weights are zero and stay zero.
    #[default]
    Freeze,
}
