//! Fine-tunes a model under masks: a ramp raises the sparsity during training, and [`Sparse::finish`] verifies the final masks.

mod compute;
mod error;
mod filter;
mod group_lasso;
mod grow;
mod journal;
mod masked;
mod masks;
mod norm;
mod optimizer_state;
mod packing;
mod pruned;
mod ranks;
mod replicas;
mod score;
mod search;
mod settle;
mod shapes;
mod sparse;
mod state;
mod stats;
#[cfg(feature = "train")]
mod steps;
mod update;

pub use compute::Compute;
pub use error::TrainError;
pub use masked::Masked;
pub use masks::{MaskSummary, PrunedWeight};
pub use pruned::Pruned;
pub use score::{ScoreInput, Scorer};
pub(crate) use shapes::refuse_other_shapes;
pub use sparse::Sparse;
pub use stats::MaskUpdateStats;
