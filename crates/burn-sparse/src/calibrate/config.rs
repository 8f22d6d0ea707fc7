use std::str::FromStr;

use burn_sparse_pattern::format::Integers;
use serde::{Deserialize, Serialize};

use super::CalibrateError;

/// Measure of the cost of dropping a weight, from the inputs `x` of its layer. `H` is the mean of `x xᵀ`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Saliency {
    /// `|w|`: ignores the inputs.
    Magnitude,
    /// `|w| · ‖x‖`: the size of the weight's contribution (Sun et al., "Wanda", ICLR 2024, equation 1). Unstructured weights
    /// compete within their row (section 3).
    Wanda,
    /// `w² / [H⁻¹]ⱼⱼ`: the error that remains when the other weights compensate for it as well as they can (Hassibi and Stork,
    /// "Optimal Brain Surgeon", 1993; Frantar and Alistarh, "SparseGPT", ICML 2023).
    #[default]
    Obs,
}

impl Saliency {
    /// Names of all saliencies.
    pub const NAMES: [&'static str; 3] = ["magnitude", "wanda", "obs"];
}

impl FromStr for Saliency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "magnitude" => Ok(Self::Magnitude),
            "wanda" => Ok(Self::Wanda),
            "obs" => Ok(Self::Obs),
            _ => Err(format!("`{text}` is none of {}", Self::NAMES.join(", "))),
        }
    }
}

/// Configuration of pruning by the inputs of layers; see [`Plan::calibrate`](crate::prune::Plan::calibrate).
///
/// ```
/// use burn_sparse::calibrate::{CalibrateConfig, Saliency};
///
/// let config = CalibrateConfig::new().with_score(Saliency::Wanda).with_repair(false);
/// assert_eq!(config.damp(), 0.01);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CalibrateConfig {
    score: Saliency,
    repair: bool,
    toward_dense: f64,
    damp: f64,
    reconstruct: usize,
    /// Never in a recipe, which trains its weights afterwards.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    values: Option<Integers>,
}

impl Default for CalibrateConfig {
    fn default() -> Self {
        Self {
            score: Saliency::default(),
            repair: true,
            toward_dense: 0.5,
            damp: 0.01,
            reconstruct: 0,
            values: None,
        }
    }
}

impl CalibrateConfig {
    /// Ranks by [`Saliency::Obs`], and repairs kept weights halfway towards the dense model's outputs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the score that ranks weights.
    #[must_use]
    pub fn with_score(mut self, score: Saliency) -> Self {
        self.score = score;
        self
    }

    /// Sets whether the kept weights are repaired by least squares (`true` by default).
    #[must_use]
    pub fn with_repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }

    /// Sets the target of the repair, as a share from 0 to 1: at 0 the layer's own dense output on the inputs that it gets
    /// from the pruned layers before it, at 1 its output in the dense model (0.5 by default).
    #[must_use]
    pub fn with_toward_dense(mut self, share: f64) -> Self {
        self.toward_dense = share;
        self
    }

    /// Sets the damping: the share of the mean of `H`'s diagonal that is added to it (0.01 by default, as in SparseGPT).
    #[must_use]
    pub fn with_damp(mut self, damp: f64) -> Self {
        self.damp = damp;
        self
    }

    /// Sets the number of steps for which the kept weights of each block are trained to match the block's dense output, with
    /// the same target as the repair (0 by default). [`Blocks`](super::Blocks) must return the features of its states. The steps
    /// run on a training device, where dropout is active and batch normalization uses the statistics of a batch.
    #[must_use]
    pub fn with_reconstruct(mut self, steps: usize) -> Self {
        self.reconstruct = steps;
        self
    }

    /// Rounds kept weights to integers, each compensating for the rounding of those before it (Frantar et al., "GPTQ", ICLR
    /// 2023). Cannot be combined with reconstruction, which trains the weights.
    #[must_use]
    pub fn with_values(mut self, values: Integers) -> Self {
        self.values = Some(values);
        self
    }

    /// Returns the score that ranks weights.
    pub fn score(&self) -> Saliency {
        self.score
    }

    /// Returns whether kept weights are repaired.
    pub fn repair(&self) -> bool {
        self.repair
    }

    /// Returns the share of the dense model's output in the target of the repair.
    pub fn toward_dense(&self) -> f64 {
        self.toward_dense
    }

    /// Returns the damping.
    pub fn damp(&self) -> f64 {
        self.damp
    }

    /// Returns the number of steps for which a block is reconstructed.
    pub fn reconstruct(&self) -> usize {
        self.reconstruct
    }

    /// Returns the integers to which kept weights are rounded, if they are.
    pub fn values(&self) -> Option<Integers> {
        self.values
    }

    /// Returns `true` if the dense model has to run beside the pruned one.
    pub(super) fn needs_dense(&self) -> bool {
        (self.repair || self.reconstruct > 0) && self.toward_dense > 0.0
    }

    /// Checks that all values are in range.
    ///
    /// # Errors
    /// Returns an error that names the first value out of range.
    pub fn validate(&self) -> Result<(), CalibrateError> {
        let value = |key, found| Err(CalibrateError::Value { key, found });
        if !(0.0..=1.0).contains(&self.toward_dense) {
            return value("toward_dense", self.toward_dense);
        }
        if self.values.is_some() && self.reconstruct > 0 {
            return value("reconstruct", self.reconstruct as f64);
        }
        match self.damp.is_finite() && self.damp >= 0.0 {
            true => Ok(()),
            false => value("damp", self.damp),
        }
    }
}
