use burn_sparse_pattern::PatternError;
use thiserror::Error;

use crate::train::TrainError;

/// Reason why a model cannot be calibrated.
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum CalibrateError {
    /// A setting out of range.
    #[error("{key} is {found}, expected {}", match *key {
        "toward_dense" => "a share from 0 to 1",
        "reconstruct" => "0: it trains weights, which would not stay integers",
        _ => "0 or a positive number",
    })]
    Value {
        /// Name of the setting.
        key: &'static str,
        /// Its value.
        found: f64,
    },
    /// No calibration batches.
    #[error("there is nothing to calibrate with: expected at least one batch")]
    NoInputs,
    /// A weight that is pruned gradually.
    #[error(
        "parameter {name} has a ramp up to step {end}; calibration prunes in one shot: remove the ramp"
    )]
    Ramp {
        /// Path of the parameter.
        name: String,
        /// Last step of the ramp.
        end: usize,
    },
    /// A layer whose inputs cannot be recorded.
    #[error(
        "parameter {name}: its inputs cannot be recorded; expected a Linear layer, or a convolution with one group, of \
         burn_sparse::nn that the calibration batches pass through"
    )]
    NotRecorded {
        /// Path of the parameter.
        name: String,
    },
    /// A layer that runs in two blocks.
    #[error(
        "parameter {name} is used in blocks {first} and {second}; calibration prunes block after block"
    )]
    TwoBlocks {
        /// Path of the parameter.
        name: String,
        /// First block that uses it.
        first: usize,
        /// Another block that uses it.
        second: usize,
    },
    /// A parameter that the model holds twice.
    #[error(
        "parameter {name} is {second} as well, and calibration would change only one of the two: keep one layer, and call it twice"
    )]
    Shared {
        /// Path of the parameter.
        name: String,
        /// Its other path.
        second: String,
    },
    /// Reconstruction of a model that is not split into blocks.
    #[error("blocks can only be reconstructed if `Blocks::features` returns their outputs")]
    NoFeatures,
    /// A convolution whose weights are to be rounded to integers.
    #[error("parameter {name}: only the weights of linear layers become integers")]
    Integers {
        /// Path of the parameter.
        name: String,
    },
    /// Inputs that are NaN or infinite.
    #[error("parameter {name}: its inputs are not finite")]
    NotFinite {
        /// Path of the parameter.
        name: String,
    },
    /// Weights that cannot be ranked, or a pattern that does not fit.
    #[error("parameter {name}: {source}")]
    Pattern {
        /// Path of the parameter.
        name: String,
        /// Cause.
        source: PatternError,
    },
    /// Failure of the model under its new masks.
    #[error(transparent)]
    Train(#[from] TrainError),
}
