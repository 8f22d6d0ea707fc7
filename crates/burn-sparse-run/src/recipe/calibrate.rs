use burn_sparse::calibrate::{CalibrateConfig, Saliency};
use serde::{Deserialize, Serialize};

use super::RecipeError;
use super::train::is_default;

/// The `[calibrate]` table: weights are pruned in one shot by the inputs of their layers, and repaired, before fine-tuning
/// under the masks that were found. The rules then have no ramp (`end = "0 steps"`).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Calibrate {
    /// Number of training samples whose inputs are recorded.
    pub samples: usize,
    /// Score that ranks weights.
    pub score: Saliency,
    /// `true` to set kept weights to their least-squares values.
    pub repair: bool,
    /// Share of the dense model's outputs in the target of the repair, from 0 to 1.
    pub toward_dense: f64,
    /// Damping, as a share of the mean squared input.
    pub damp: f64,
    /// Number of steps for which each block is reconstructed.
    #[serde(skip_serializing_if = "is_default")]
    pub reconstruct: usize,
}

impl Default for Calibrate {
    fn default() -> Self {
        let config = CalibrateConfig::default();
        Self {
            samples: 128,
            score: config.score(),
            repair: config.repair(),
            toward_dense: config.toward_dense(),
            damp: config.damp(),
            reconstruct: config.reconstruct(),
        }
    }
}

impl Calibrate {
    /// Returns the score and the repair.
    pub fn config(&self) -> CalibrateConfig {
        CalibrateConfig::new()
            .with_score(self.score)
            .with_repair(self.repair)
            .with_toward_dense(self.toward_dense)
            .with_damp(self.damp)
            .with_reconstruct(self.reconstruct)
    }

    pub(super) fn validate(&self) -> Result<(), RecipeError> {
        if self.samples == 0 {
            let reason = "is 0, expected at least 1";
            return Err(RecipeError::value("calibrate.samples", reason));
        }
        let fail = |error| RecipeError::value("calibrate", format!("{error}"));
        self.config().validate().map_err(fail)
    }
}
