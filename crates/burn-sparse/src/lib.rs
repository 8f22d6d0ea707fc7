//! Sparsity for Burn models, from training to deployment: configuration → plan → fine-tuning under masks → verified sparse
//! checkpoint → sparse kernel that proves it ran.
#![allow(clippy::module_inception)]
pub mod checkpoint;
pub mod measure;
pub mod nn;
pub mod oneshot;
pub mod prelude;
pub mod prune;
pub mod train;

mod params;

pub use burn_sparse_kernels::Costs;
pub use burn_sparse_pattern as pattern;
