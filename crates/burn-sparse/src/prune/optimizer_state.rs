use serde::{Deserialize, Serialize};

/// Treatment of the optimizer's state (momentum, second moments) of single weights that stop or start learning.
///
/// Applied at every update where weights move (drop-and-grow, grow-and-prune), otherwise once, when masks are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerState {
    /// State of weights that stop learning.
    pub on_prune: StatePolicy,
    /// State of weights that regrow from zero.
    pub on_grow: StatePolicy,
}

/// Treatment of a weight's optimizer state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum StatePolicy {
    /// Resets the moments to zero; the optimizer's step count stays.
    #[default]
    Zero,
    /// Keeps the moments, which decay at the optimizer's own rate.
    Keep,
}
