use std::path::PathBuf;

use burn_sparse_pattern::PatternError;
use thiserror::Error;

/// Why a checkpoint was not written or not read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file cannot be read.
    #[error("cannot read checkpoint {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The file cannot be written; an older file of the name is intact.
    #[error("cannot write checkpoint {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The bytes are no safetensors file.
    #[error("{} is no complete safetensors file: {reason}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What the reader found.
        reason: String,
    },
    /// A safetensors file of someone else, or of another version.
    #[error("{} is no burn-sparse checkpoint: metadata `{key}` is {found}, expected {expected}", path.display())]
    Metadata {
        /// The file.
        path: PathBuf,
        /// The key of the header's metadata.
        key: String,
        /// What it holds.
        found: String,
        /// What it should.
        expected: String,
    },
    /// A tensor that is missing or of the wrong type or shape.
    #[error("{}, tensor {name}: {reason}", path.display())]
    Tensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// What was expected and found.
        reason: String,
    },
    /// A parameter that breaks its pattern.
    #[error("parameter {name}: {source}")]
    Pattern {
        /// The parameter.
        name: String,
        /// Why.
        source: PatternError,
    },
    /// A mask that is not the one its hash was taken of.
    #[error("parameter {name}: the mask's hash is {found}, the file says {expected}")]
    Hash {
        /// The parameter.
        name: String,
        /// What the metadata says.
        expected: String,
        /// What the mask has.
        found: String,
    },
    /// The parameters are not those of the model.
    #[error("the checkpoint does not fit the model: {}", problems.join("; "))]
    Model {
        /// Each missing, unexpected or misshapen parameter.
        problems: Vec<String>,
    },
}
