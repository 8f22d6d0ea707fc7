//! Masked fine-tuning: masks hang on weights, the ramp raises sparsity, [`Sparse::finish`] proves the
//! result.

mod attract;
mod distill;
mod error;
mod filter;
mod gather;
mod grow;
mod journal;
mod masked;
mod optimizer_state;
mod pruned;
mod replicas;
mod score;
mod search;
mod settle;
mod sparse;
mod update;

pub use error::TrainError;
pub use journal::Journal;
pub use masked::Masked;
pub(crate) use masked::ids;
pub use pruned::{Pruned, PrunedWeight};
pub use score::{Ranked, Scorer};
pub use sparse::{Masks, Sparse};
