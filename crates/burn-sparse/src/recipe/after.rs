use serde::{Deserialize, Serialize};

/// The `[after]` table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct After {
    /// What happens to masks.
    pub mask: MaskAfter,
    /// What happens to the optimizer's state (momentum, second moments) of weights that stop or start
    /// learning.
    pub optimizer_state: OptimizerState,
}

/// What happens to masks after their last update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MaskAfter {
    /// They stay; dropped weights are zero and stay so.
    #[default]
    Freeze,
}

/// What happens to the optimizer's state of single weights: at every update where weights move (drop and grow,
/// grow-and-prune), otherwise once, when masks are final.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OptimizerState {
    /// Of weights that stop learning.
    pub on_prune: StatePolicy,
    /// Of weights that come back at zero.
    pub on_grow: StatePolicy,
}

/// One of the two things that can happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StatePolicy {
    /// Its moments become zero; the optimizer's count of steps stays.
    #[default]
    Zero,
    /// It stays, and fades as the optimizer lets it.
    Keep,
}
