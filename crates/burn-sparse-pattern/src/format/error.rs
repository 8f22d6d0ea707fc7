use thiserror::Error;

use crate::PatternError;

/// Why a file was not read or not written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// The system refuses.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The bytes are no safetensors file.
    #[error("no complete safetensors file: {reason}")]
    Safetensors {
        /// What the reader found.
        reason: String,
    },
    /// A safetensors file of someone else, or of another version.
    #[error("no burn-sparse checkpoint: metadata `{key}` is {found}, expected {expected}")]
    Metadata {
        /// The key of the header's metadata.
        key: String,
        /// What it holds.
        found: String,
        /// What it should.
        expected: String,
    },
    /// A tensor that is missing, superfluous, or of the wrong type or shape.
    #[error("tensor {name}: {reason}")]
    Tensor {
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
}

impl FormatError {
    pub(crate) fn tensor(name: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Tensor { name: name.into(), reason: reason.into() }
    }

    pub(crate) fn safetensors(reason: impl ToString) -> Self {
        Self::Safetensors { reason: reason.to_string() }
    }
}
