use std::path::PathBuf;

use burn_sparse_models::huggingface::PretrainedError;
use thiserror::Error;

/// Failure to find the task of a recipe.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TaskError {
    /// Unknown task.
    #[error("unknown task `{name}`{}; tasks are {}", hint(.name), NAMES.join(", "))]
    Unknown {
        /// Requested name.
        name: String,
    },
    /// Key that does not fit the task.
    #[error("recipe, key `{key}`: task {task} {reason}")]
    Key {
        /// Path of the key.
        key: &'static str,
        /// Task.
        task: String,
        /// Cause.
        reason: &'static str,
    },
    /// The folder holds a model for another task.
    #[error("{} is not a model for task {task}", folder.display())]
    OtherModel {
        /// Folder.
        folder: PathBuf,
        /// Task.
        task: String,
    },
    /// The pretrained model cannot be opened.
    #[error(transparent)]
    Pretrained(#[from] PretrainedError),
}

/// Names of all tasks.
pub(crate) const NAMES: [&str; 13] = [
    "glyphs-mlp",
    "mnist-mlp",
    "cifar10-convnet",
    "cifar10-resnet",
    "cifar10-resnet-large",
    "cifar10-vgg",
    "cifar10-vgg-large",
    "lstm-lm",
    "lstm-lm-large",
    "translation",
    "translation-large",
    SENTENCE_EMBEDDING,
    CAUSAL_LM,
];
pub(crate) const SENTENCE_EMBEDDING: &str = "sentence-embedding";
pub(crate) const CAUSAL_LM: &str = "causal-lm";

fn hint(name: &str) -> String {
    let near = |known: &&&str| strsim::damerau_levenshtein(name, known) <= 3;
    NAMES.iter().find(near).map_or(String::new(), |known| format!(", did you mean `{known}`?"))
}
