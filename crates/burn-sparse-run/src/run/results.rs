use burn_sparse::checkpoint::Checkpoint;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Metric;

/// Results of a run, as its checkpoint carries them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Results {
    /// Metric of the dense model: at the end of the dense phase, or as it was pretrained; `None` without either.
    #[serde(default)]
    pub dense_metric: Option<Metric>,
    /// Metric of the packed checkpoint.
    pub metric: Metric,
    /// Largest difference of an output between the packed and the masked model.
    #[serde(default)]
    pub output_difference: f64,
    /// Share of zeros of the pruned weights.
    #[serde(default)]
    pub sparsity: f64,
    /// Record of the calibration, a [`CalibrationRecord`](crate::CalibrationRecord) in JSON without times; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibration: Option<Value>,
}

impl Results {
    /// Returns the results that a checkpoint carries; `None` if its run is unfinished: the file is first written without results.
    pub fn of(checkpoint: &Checkpoint) -> Option<Self> {
        serde_json::from_str(checkpoint.provenance().results()?).ok()
    }

    /// Returns the results as JSON.
    pub(super) fn to_json(&self) -> String {
        // Cannot fail: every field has a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }
}
