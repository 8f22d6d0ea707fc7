//! A run: a task trained by its recipe in its own folder, resumable at any step.
//!
//! burn-train's `SupervisedTraining` can train `Sparse<M>` as it is. This loop exists because a run must be able to stop and
//! resume in the middle of an epoch with bitwise identical results.

mod bf16_state;
mod calibrate;
mod epochs;
mod finish;
mod folder;
mod freeze;
mod gradients;
mod memory;
mod observer;
mod optimizer;
mod phase;
mod results;
mod session;
mod shared_folder;
mod source;
mod state;
mod train;

pub use crate::run_error::RunError;
pub use finish::Trained;
pub use folder::RunFolder;
pub use observer::{EpochReport, Observer, Phase, StepTimes, StepTraffic};
pub use results::Results;
pub use source::DataSource;
pub(crate) use train::refuse_training;
pub use train::{Begin, Outcome, TrainOptions, train};
