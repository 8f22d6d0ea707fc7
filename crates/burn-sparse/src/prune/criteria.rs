//! Scores that rank weights, and updates that search the row order again.

use serde::{Deserialize, Serialize};

/// Score that ranks weights; the highest are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Score {
    /// Magnitude, `|w|`.
    #[default]
    Magnitude,
    /// `|w · g|`, the first-order Taylor estimate of the change of the loss (Molchanov et al., 2017), with the gradient
    /// of the batch before the update.
    Taylor,
}

/// When the row order of Shfl-BW or HiNM is searched again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub enum Regroup {
    /// At every mask update, starting from the previous order.
    #[default]
    #[serde(rename = "every update")]
    EveryUpdate,
    /// At the first update only; later updates keep its groups.
    #[serde(rename = "first update")]
    FirstUpdate,
}
