use std::path::{Path, PathBuf};

use burn_sparse_pattern::PatternError;
use burn_sparse_pattern::format::{FloatType, FormatError};
use thiserror::Error;

use crate::train::TrainError;

/// Failure to read or write a checkpoint, or to load it into a model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file cannot be read.
    #[error("cannot read checkpoint {}: {source}", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file cannot be written; an existing file is intact.
    #[error("cannot write checkpoint {}: {source}", path.display())]
    Write {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file is malformed.
    #[error("{}: {source}", path.display())]
    Malformed {
        /// File.
        path: PathBuf,
        /// Cause, with the position in the file.
        source: FormatError,
    },
    /// The content is malformed and was not written; an existing file is intact.
    #[error("{} was not written: {source}", path.display())]
    Refused {
        /// File.
        path: PathBuf,
        /// Cause, with the position in the file.
        source: FormatError,
    },
    /// A parameter violates its pattern.
    #[error("parameter {name}: {source}")]
    Pattern {
        /// Path of the parameter.
        name: String,
        /// Cause.
        source: PatternError,
    },
    /// The parameters do not fit the model.
    #[error("the checkpoint does not fit the model: {}", problems.join("; "))]
    Model {
        /// Every parameter that is missing, unexpected, or of another shape.
        problems: Vec<String>,
    },
    /// A value exceeds the range of a narrower type.
    #[error("parameter {name}: {value:e} is more than {float:?} holds")]
    Range {
        /// Path of the parameter.
        name: String,
        /// Largest magnitude.
        value: f32,
        /// Type.
        float: FloatType,
    },
    /// A value that no integer can represent.
    #[error("parameter {name}: holds NaN or infinity, which values of 8 or 4 bits cannot")]
    NotFinite {
        /// Path of the parameter.
        name: String,
    },
    /// Scales without a matrix.
    #[error("parameter {name}: expected the matrix of a linear layer with as many scales")]
    Scales {
        /// Path of the parameter.
        name: String,
    },
    /// The file is a burn-sparse checkpoint already.
    #[error("{} is a burn-sparse checkpoint already: use it as it is", path.display())]
    Ours {
        /// File.
        path: PathBuf,
    },
    /// The checkpoint has no packed weights whose masks could be kept.
    #[error("the checkpoint holds no packed weight, so there are no zeros to keep")]
    NothingPacked,
    /// Masks could not be attached to the model.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A rename that is malformed, or that matches nothing in the file.
    #[error("rename `{text}`: {reason}")]
    Rename {
        /// The rename.
        text: String,
        /// Cause.
        reason: String,
    },
}

impl CheckpointError {
    pub(super) fn of_file(path: &Path, error: FormatError) -> Self {
        match error {
            FormatError::System(source) => Self::Read { path: path.into(), source },
            source => Self::Malformed { path: path.into(), source },
        }
    }
}
