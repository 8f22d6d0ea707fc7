use std::path::PathBuf;

use burn_sparse::calibrate::CalibrateError;
use burn_sparse::checkpoint::CheckpointError;
use burn_sparse::distributed::{RankFailed, UnlikeModels};
use burn_sparse::measure::BenchError;
use burn_sparse::pattern::PatternError;
use burn_sparse::prune::PlanError;
use burn_sparse::train::TrainError;
use burn_sparse_datasets::DatasetError;
use burn_sparse_models::huggingface::PretrainedError;
use thiserror::Error;

use crate::recipe::RecipeError;
use crate::task_error::TaskError;

/// Failure of a run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// Data cannot be loaded.
    #[error(transparent)]
    Data(#[from] DatasetError),
    /// The recipe is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A pretrained model cannot be loaded or run.
    #[error(transparent)]
    Pretrained(#[from] PretrainedError),
    /// The recipe does not fit the model.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// Masks could not be updated.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// The checkpoint could not be written or read back.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// A weight could not be packed.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// A layer could not be timed.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// No device was given.
    #[error("no device given: name at least one")]
    NoDevice,
    /// Another rank failed, and this one stopped with it.
    #[error(transparent)]
    Rank(#[from] RankFailed),
    /// Ranks train different models.
    #[error(transparent)]
    Unlike(#[from] UnlikeModels),
    /// The loss is not finite.
    #[error(
        "the loss is {loss} at step {step} of epoch {epoch} ({phase}): lower \
         train.optimizer.learning_rate, or look for bad data"
    )]
    Diverged {
        /// Phase of training.
        phase: &'static str,
        /// Epoch, from 1.
        epoch: usize,
        /// Step of the epoch, from 1.
        step: usize,
        /// Loss.
        loss: f64,
    },
    /// The metric is not finite.
    #[error(
        "the model's {name} is {value}: a lower train.optimizer.learning_rate, or other weights to start from, may help"
    )]
    NotFinite {
        /// Name of the metric.
        name: String,
        /// Value.
        value: f64,
    },
    /// The folder already holds a run.
    #[error("{} already holds a run; continue it with --resume, or choose another --run-dir", folder.display())]
    Occupied {
        /// Folder.
        folder: PathBuf,
    },
    /// Another process trains in the folder.
    #[error("another process is training in {}: wait for it, or choose another --run-dir", folder.display())]
    InUse {
        /// Folder.
        folder: PathBuf,
    },
    /// A run of a sweep could not be claimed, or its claim was lost.
    #[error("{}: {reason}", folder.display())]
    Claim {
        /// Folder.
        folder: PathBuf,
        /// Cause.
        reason: String,
    },
    /// There is nothing to resume.
    #[error("{} holds no run to resume: {reason}", folder.display())]
    NothingToResume {
        /// Folder.
        folder: PathBuf,
        /// Cause.
        reason: String,
    },
    /// The folder holds a run of another recipe.
    #[error(
        "{} holds a run of another recipe: {key} is {found} there, {expected} here",
        folder.display()
    )]
    OtherRecipe {
        /// Folder.
        folder: PathBuf,
        /// First key that differs.
        key: String,
        /// Value of the run.
        found: String,
        /// Requested value.
        expected: String,
    },
    /// A file of the run cannot be read or written.
    #[error("run file {}: {reason}", path.display())]
    File {
        /// File.
        path: PathBuf,
        /// Cause.
        reason: String,
    },
    /// No finished run was found.
    #[error("{} holds no finished run, nor does any folder below it", folder.display())]
    NothingFinished {
        /// Folder.
        folder: PathBuf,
    },
    /// The model cannot be calibrated.
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    /// The recipe names an unknown task.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The checkpoint, read back, differs from the trained model.
    #[error(
        "the packed checkpoint differs from the trained model: outputs by {difference:e}, at most \
         {allowed:e} is rounding"
    )]
    Unfaithful {
        /// Largest difference of an output.
        difference: f32,
        /// Largest accepted difference.
        allowed: f32,
    },
}
