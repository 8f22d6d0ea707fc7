use burn_sparse_kernels::Predicted;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::training::Passes;

/// Times of a layer at one batch size, dense and sparse in one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct BenchRow {
    /// Path of the weight, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Number of outputs.
    pub rows: usize,
    /// Size of the reduction.
    pub cols: usize,
    /// Number of tokens; for a convolution, the pixels of its output.
    pub batch: usize,
    /// Pattern of the mask.
    pub pattern: String,
    /// Share of zeros.
    pub sparsity: f64,
    /// Type of the packed weight's values, as safetensors names it; `None` on a GPU, where all floats have the type of the
    /// device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<String>,
    /// Median microseconds of Burn's dense layer; on a training device, of its forward and backward pass.
    pub dense_us: f64,
    /// Median microseconds of the packed layer.
    pub sparse_us: f64,
    /// Ratio of dense to sparse time.
    pub speedup: f64,
    /// GFLOP/s on kept weights.
    pub kept_gflops: f64,
    /// Share of the CPU's peak multiply-add rate, measured in this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_of_peak: Option<f64>,
    /// On a training device: the passes of the dense and of the packed layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passes: Option<Passes>,
    /// Largest difference in the sparse layer's output, relative to the largest output; on a training device, also in the
    /// gradient of its input.
    #[serde(default)]
    pub error: f64,
    /// Name of the kernel that ran.
    pub kernel: String,
    /// Predicted times that the choice was based on, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

/// Failure that makes a time meaningless.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The device reported a failure.
    #[error("the device failed while layers were timed: {0}")]
    Device(String),
    /// The sparse layer computes another result.
    #[error(
        "{kernel} differs from the dense layer by {error:.1e} of its largest output, which is too much: \
         its time would mean nothing"
    )]
    Wrong {
        /// Name of the kernel that ran.
        kernel: String,
        /// As [`BenchRow::error`].
        error: f64,
    },
}
