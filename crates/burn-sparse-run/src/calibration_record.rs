use burn_sparse::calibrate::{CalibrateConfig, CalibratedBlock, CalibratedWeight};
use serde::Serialize;

/// Record of a calibration, in the results of its checkpoint.
#[derive(Debug, Clone, Serialize)]
pub struct CalibrationRecord {
    /// Score and repair.
    #[serde(flatten)]
    pub config: CalibrateConfig,
    /// Number of samples.
    pub samples: usize,
    /// SHA-256 of the samples, in hexadecimal: of their tokens, or, for a data set that is always the same, of their indices.
    pub hash: String,
    /// Results of the weights, in the order of the forward pass.
    pub weights: Vec<CalibratedWeight>,
    /// Results of the reconstructed blocks, in the order of the forward pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<CalibratedBlock>,
    /// Time for the whole model, in seconds.
    pub seconds: f64,
}
