//! Every layer of a model: its pattern, sparsity, mask hash, the kernel that ran, and its speed.

mod alone;
mod alternate;
mod bench;
mod layers;
pub mod plot;

pub use alternate::alternate;
pub use bench::{Bench, BenchError, BenchRow};
pub use burn_sparse_kernels::Predicted;
pub use layers::{LayerReport, layers};
