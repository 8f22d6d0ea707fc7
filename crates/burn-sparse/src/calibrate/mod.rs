//! One-shot pruning by the inputs of layers, with repair of the kept weights.
//!
//! The magnitude of a weight says nothing about the size of the input that it multiplies, or about which other weights could
//! replace it. [`Plan::calibrate`](crate::prune::Plan::calibrate) records the inputs while batches run through the model, uses them
//! to rank weights ([`Saliency`]), and sets the kept weights to the values that change the layer's outputs least. The rows of a Shfl-BW,
//! vector-wise or block-wise group share their kept columns, so that one Cholesky factorization repairs all of them exactly;
//! rows that choose columns independently are selected by the sweep of SparseGPT and then solved one by one.
//!
//! Optionally, calibration rounds kept weights to 8 or 4 bits ([`CalibrateConfig::with_values`]), each compensating for the
//! rounding of those before it (GPTQ), also without pruning ([`Plan::keeping_all`](crate::prune::Plan::keeping_all)), or trains
//! the kept weights of each block together for some steps to match the dense block's output, where least squares repairs one
//! layer at a time.
//!
//! [`Blocks`] describes how the model runs block by block; [`Whole`], which has an example, runs it as one block.

mod blocks;
mod calibrated;
mod config;
mod dense_model;
mod eliminate;
mod error;
mod factor;
mod gram;
mod prune_weight;
mod reconstruct;
mod repair;
mod rounding;
mod saliency;
mod sequence;
mod sites;
mod sweep;
mod threshold;
mod unfold;
mod walk;

pub use blocks::{Blocks, Whole};
pub use calibrated::{Calibrated, CalibratedBlock, CalibratedWeight, CalibrationStep};
pub use config::{CalibrateConfig, Saliency};
pub use error::CalibrateError;
