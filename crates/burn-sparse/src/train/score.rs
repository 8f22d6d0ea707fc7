use std::fmt::Debug;

use crate::prune::Score;

/// A weight to rank, in the order its layer stores it.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct ScoreInput<'a> {
    /// Path of the parameter in the module.
    pub name: &'a str,
    /// Stored values, including dropped ones.
    pub values: &'a [f32],
    /// Gradient of the loss with respect to the masked weight, from the last batch. It passes straight through the
    /// mask, so dropped weights have one too. Present only if [`Scorer::needs_gradient`] returns `true`.
    pub gradient: Option<&'a [f32]>,
}

/// Ranks weights by a custom measure; see [`Sparse::with_scorer`](super::Sparse::with_scorer).
///
/// ```
/// use burn_sparse::train::{ScoreInput, Scorer};
///
/// /// Keeps weights whose gradient is large.
/// #[derive(Debug)]
/// struct Saliency;
///
/// impl Scorer for Saliency {
///     fn score(&self, weight: &ScoreInput<'_>) -> Vec<f32> {
///         weight.gradient.unwrap_or(weight.values).iter().map(|g| g.abs()).collect()
///     }
///
///     fn needs_gradient(&self) -> bool {
///         true
///     }
/// }
/// ```
pub trait Scorer: Debug + Send + Sync {
    /// Returns a finite, non-negative score for every value; the highest are kept.
    fn score(&self, weight: &ScoreInput<'_>) -> Vec<f32>;

    /// Returns `true` if scores need the gradient. It is read from the device only then.
    fn needs_gradient(&self) -> bool {
        false
    }
}

impl Scorer for Score {
    fn score(&self, weight: &ScoreInput<'_>) -> Vec<f32> {
        match (self, weight.gradient) {
            (Self::Taylor, Some(gradient)) => weight
                .values
                .iter()
                .zip(gradient)
                .map(|(value, slope)| (value * slope).abs())
                .collect(),
            // Updates refuse to rank without a gradient that is needed.
            (Self::Magnitude, _) | (Self::Taylor, None) => {
                weight.values.iter().map(|value| value.abs()).collect()
            }
        }
    }

    fn needs_gradient(&self) -> bool {
        *self == Self::Taylor
    }
}
