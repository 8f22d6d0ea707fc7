//! A run: a task trained by its recipe, in a folder of its own, resumable at any step.
//!
//! burn-train's `SupervisedTraining` runs `Sparse<M>` as it is; this loop exists because a run must
//! also stop and continue in the middle of an epoch and end with the same bits.

mod epochs;
mod error;
mod finish;
mod folder;
mod observer;
mod optimizer;
mod parallel;
mod session;
mod source;
mod state;
mod train;

pub use error::RunError;
pub use finish::Trained;
pub use folder::RunFolder;
pub use observer::{EpochReport, Observer, Phase};
pub use source::DataSource;
pub use train::{Begin, Outcome, train};
