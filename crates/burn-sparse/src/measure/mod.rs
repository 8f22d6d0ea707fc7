//! Measurements of a model: pattern, sparsity, mask hash, and kernel of every layer, and the speed of single layers.

mod alternate;
mod bench;
mod bench_row;
mod difference;
mod layer;
mod layers;
#[cfg(feature = "plot")]
pub mod plot;
mod training;

pub use alternate::{alternate, alternate_all};
pub use bench::Bench;
pub use bench_row::{BenchError, BenchRow};
pub use burn_sparse_kernels::Predicted;
pub use layers::{LayerReport, dense_layers, layers};
pub use training::{Passes, StepParts};
