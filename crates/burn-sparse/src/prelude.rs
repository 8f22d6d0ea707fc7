//! Types that a typical program uses, for `use burn_sparse::prelude::*`.

pub use burn_sparse_kernels::Costs;
pub use burn_sparse_pattern::Pattern;

pub use crate::checkpoint::Checkpoint;
pub use crate::prune::Moment::{self, Epochs, Steps};
pub use crate::prune::{Horizon, Plan, PruneConfig, Pruning, Ramp, Regrow};
pub use crate::train::{Pruned, Sparse};
