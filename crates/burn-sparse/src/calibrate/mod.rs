//! One-shot pruning by the inputs of layers, with repair of what is kept.
//!
//! A magnitude does not know how large the input is that a weight is multiplied with, nor which other weights could do its
//! work. [`Plan::calibrate`](crate::prune::Plan::calibrate) records the inputs while batches run through the model, ranks
//! weights by them ([`Saliency`]), and gives the weights that are kept the values with which the layer's outputs change
//! least. The rows of a Shfl-BW, vector-wise or block-wise group share their kept columns, so that one Cholesky
//! factorization repairs all of them exactly; rows that choose on their own are selected by the sweep of SparseGPT and then
//! solved one by one.
//!
//! Optionally rounds kept weights to 8 or 4 bits ([`CalibrateConfig::with_values`]), each making up for the rounding of those
//! before it (GPTQ), also without pruning ([`Plan::keeping_all`](crate::prune::Plan::keeping_all)), or trains the kept weights of
//! each block together, for some steps, to the dense block's output: least squares repairs one layer at a time.
//!
//! [`Blocks`] tells how the model runs block by block, or in one: [`Whole`], which has an example.

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
mod unfold;
mod walk;

pub use blocks::{Blocks, Whole};
pub use calibrated::{Calibrated, CalibratedBlock, CalibratedWeight, CalibrationStep};
pub use config::{CalibrateConfig, Saliency};
pub use error::CalibrateError;
