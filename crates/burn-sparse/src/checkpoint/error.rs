use std::path::{Path, PathBuf};

use burn_sparse_pattern::PatternError;
use burn_sparse_pattern::format::{FloatType, FormatError};
use thiserror::Error;

use crate::train::TrainError;

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
    /// What the file holds is malformed.
    #[error("{}: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: FormatError,
    },
    /// What would be written is malformed; an older file of the name is intact.
    #[error("{} was not written: {source}", path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        source: FormatError,
    },
    /// A parameter that breaks its pattern.
    #[error("parameter {name}: {source}")]
    Pattern {
        /// The parameter.
        name: String,
        /// Why.
        source: PatternError,
    },
    /// The parameters are not those of the model.
    #[error("the checkpoint does not fit the model: {}", problems.join("; "))]
    Model {
        /// Each missing, unexpected or misshapen parameter.
        problems: Vec<String>,
    },
    /// A value that a narrower type cannot hold.
    #[error("parameter {name}: {value:e} is more than {float:?} holds")]
    Range {
        /// The parameter.
        name: String,
        /// Its largest magnitude.
        value: f32,
        /// The type.
        float: FloatType,
    },
    /// The file is one of ours, not another tool's.
    #[error("{} is a burn-sparse checkpoint already: use it as it is", path.display())]
    Ours {
        /// The file.
        path: PathBuf,
    },
    /// There are no masks to keep.
    #[error("the checkpoint holds no packed weight, so there are no zeros to keep")]
    NothingPacked,
    /// Masks could not be hung on the model.
    #[error(transparent)]
    Train(#[from] TrainError),
    /// A rename that cannot be read or that nothing in the file answers to.
    #[error("rename `{text}`: {reason}")]
    Rename {
        /// What was written.
        text: String,
        /// What is wrong with it.
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
