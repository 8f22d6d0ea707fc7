use std::path::{Path, PathBuf};

use burn_sparse::checkpoint::CheckpointError;
use thiserror::Error;

/// Failure to load or run a pretrained model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PretrainedError {
    /// There is no such folder, and no model of this name in the hub's cache.
    #[error(
        "there is no folder {name}, and no model of this name in the cache of the Hugging Face hub: name a folder with \
         config.json, tokenizer.json, model.safetensors and the other files of the model, or, for a model on the hub, run \
         `hf download {}` on a machine with a network",
        on_hub(name)
    )]
    NotFound {
        /// Folder, or name on the hub.
        name: PathBuf,
    },
    /// The hub's cache holds only a part of a model.
    #[error(
        "the cache of the Hugging Face hub has only a part of {name}, without {file}: fetch the rest with `hf download {name}` \
         on a machine with a network"
    )]
    Incomplete {
        /// Name on the hub.
        name: String,
        /// First missing file.
        file: String,
    },
    /// A model cannot be fetched from the Hugging Face hub.
    #[error(
        "cannot fetch {name} from the Hugging Face hub: {reason}; without a network, put all of its files (config.json, \
         tokenizer.json, model.safetensors, and the others) into a folder, and name that"
    )]
    Download {
        /// Name on the hub.
        name: String,
        /// Cause.
        reason: String,
    },
    /// A file of the folder is missing.
    #[error(
        "{folder} has no {file}: expected a Hugging Face folder with config.json, tokenizer.json, and \
         model.safetensors or model.safetensors.index.json"
    )]
    Missing {
        /// Folder.
        folder: PathBuf,
        /// Missing file.
        file: String,
    },
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// A file is malformed.
    #[error("{path}: {reason}")]
    Malformed {
        /// File.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// The configuration asks for something that is not supported.
    #[error("{path}: `{key}` is {found}, supported: {supported}")]
    Unsupported {
        /// Configuration file.
        path: PathBuf,
        /// Key.
        key: &'static str,
        /// Its value.
        found: String,
        /// Supported values.
        supported: &'static str,
    },
    /// The weights do not match the configuration.
    #[error("{folder}: the weights are not those of config.json:\n  {}", listed(problems))]
    Weights {
        /// Folder.
        folder: PathBuf,
        /// Every parameter that is missing, unexpected, or of another shape.
        problems: Vec<String>,
    },
    /// The packed checkpoint does not fit the configuration, or cannot be read.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The text cannot be processed.
    #[error("{0}")]
    Input(String),
}

/// Returns the first problems, one in a line.
fn listed(problems: &[String]) -> String {
    const MOST: usize = 20;
    let mut lines = problems[..problems.len().min(MOST)].join("\n  ");
    if problems.len() > MOST {
        lines += &format!("\n  and {} more", problems.len() - MOST);
    }
    lines
}

/// Returns a name as that of a model on the hub, which has an owner and is not a path.
fn on_hub(name: &Path) -> &str {
    let is_name = |name: &&str| name.split('/').count() == 2 && !name.starts_with(['.', '/']);
    name.to_str().filter(is_name).unwrap_or("OWNER/MODEL")
}
