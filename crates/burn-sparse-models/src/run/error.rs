use std::path::PathBuf;

use burn_sparse::checkpoint::CheckpointError;
use burn_sparse::pattern::PatternError;
use burn_sparse::plan::PlanError;
use burn_sparse::recipe::RecipeError;
use burn_sparse::report::BenchError;
use burn_sparse::train::TrainError;
use burn_sparse_datasets::DatasetError;
use thiserror::Error;

use crate::TaskError;

/// Why a run stopped.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The data cannot be loaded.
    #[error(transparent)]
    Data(#[from] DatasetError),
    /// The recipe is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
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
    /// Nowhere to train.
    #[error("no device was named: name one at least")]
    NoDevice,
    /// The loss is no number any more.
    #[error(
        "the loss is {loss} at step {step} of epoch {epoch} ({phase}): lower \
         train.optimizer.learning_rate, or look for bad data"
    )]
    Diverged {
        /// The phase of training.
        phase: &'static str,
        /// The epoch, from 1.
        epoch: usize,
        /// The step of the epoch, from 1.
        step: usize,
        /// The loss.
        loss: f64,
    },
    /// The folder holds a run already.
    #[error("{} already holds a run; continue it with --resume, or choose another --run-dir", folder.display())]
    Occupied {
        /// The folder.
        folder: PathBuf,
    },
    /// Another process trains in the folder.
    #[error("another process is training in {}: wait for it, or choose another --run-dir", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// There is nothing to resume.
    #[error("{} holds no run to resume: {reason}", folder.display())]
    NothingToResume {
        /// The folder.
        folder: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The folder holds a run of another recipe.
    #[error(
        "{} holds a run of another recipe: {key} is {found} there, {expected} here",
        folder.display()
    )]
    OtherRecipe {
        /// The folder.
        folder: PathBuf,
        /// The first difference.
        key: String,
        /// What the run has.
        found: String,
        /// What was asked for.
        expected: String,
    },
    /// A file of the run cannot be read or written.
    #[error("run file {}: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        reason: String,
    },
    /// There is nothing to report on.
    #[error("{} holds no finished run, nor does any folder below it", folder.display())]
    NothingFinished {
        /// The folder.
        folder: PathBuf,
    },
    /// A checkpoint without a recipe: nobody knows what its data is.
    #[error("the checkpoint carries no recipe, so its task is not known")]
    NoRecipe,
    /// The recipe names a task that there is none of.
    #[error(transparent)]
    Task(#[from] TaskError),
    /// The checkpoint, read back, is not the model that was trained.
    #[error(
        "the packed checkpoint differs from the trained model: outputs by {difference:e}, at most \
         {allowed:e} is rounding"
    )]
    Unfaithful {
        /// The largest difference of an output.
        difference: f32,
        /// The largest that is accepted.
        allowed: f32,
    },
}
