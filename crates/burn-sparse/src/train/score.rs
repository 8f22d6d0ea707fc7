use std::fmt::Debug;

use crate::recipe::Score;

/// A weight to be ranked, in the order its layer stores it.
#[derive(Debug, Clone, Copy)]
pub struct Ranked<'a> {
    /// The parameter's path in the module.
    pub name: &'a str,
    /// The stored values, dropped ones among them.
    pub values: &'a [f32],
    /// The gradient of the loss with respect to the masked weight, from the batch just seen. It passes
    /// straight through the mask, so dropped weights have one too. Only there where
    /// [`Scorer::needs_gradient`] asks for it.
    pub gradient: Option<&'a [f32]>,
}

/// What ranks weights: implement it to rank by your own measure, and hand it to
/// [`Sparse::with_scorer`](super::Sparse::with_scorer).
pub trait Scorer: Debug + Send + Sync {
    /// A finite, non-negative score for every value, highest kept first.
    fn score(&self, weight: &Ranked<'_>) -> Vec<f32>;

    /// Whether scores need the gradient; it is read from the device only then.
    fn needs_gradient(&self) -> bool {
        false
    }
}

impl Scorer for Score {
    fn score(&self, weight: &Ranked<'_>) -> Vec<f32> {
        match (self, weight.gradient) {
            (Self::Taylor, Some(gradient)) => weight
                .values
                .iter()
                .zip(gradient)
                .map(|(value, slope)| (value * slope).abs())
                .collect(),
            // Updates refuse to rank without the gradient that was asked for.
            (Self::Magnitude, _) | (Self::Taylor, None) => {
                weight.values.iter().map(|value| value.abs()).collect()
            }
        }
    }

    fn needs_gradient(&self) -> bool {
        *self == Self::Taylor
    }
}
