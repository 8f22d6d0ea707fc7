use thiserror::Error;

use crate::PatternError;

/// Error from reading or writing a file.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FormatError {
    /// I/O error.
    #[error(transparent)]
    System(#[from] std::io::Error),
    /// The bytes are not a complete safetensors file.
    #[error("no complete safetensors file: {reason}")]
    Safetensors {
        /// Problem that the reader found.
        reason: String,
    },
    /// The index of a sharded file is malformed.
    #[error("no index of a sharded safetensors file: {reason}")]
    Index {
        /// Problem that the reader found.
        reason: String,
    },
    /// The file is a safetensors file from another program, or of another format version.
    #[error("no burn-sparse checkpoint: metadata `{key}` is {found}, expected {expected}")]
    Metadata {
        /// Metadata key in the header.
        key: String,
        /// Value found, or the reason why it is invalid.
        found: String,
        /// Value expected.
        expected: String,
    },
    /// A tensor is missing, superfluous, or of the wrong type or shape.
    #[error("tensor {name}: {reason}")]
    Tensor {
        /// Name of the tensor.
        name: String,
        /// Expected and found properties.
        reason: String,
    },
    /// A parameter violates its pattern.
    #[error("parameter {name}: {source}")]
    Pattern {
        /// Name of the parameter.
        name: String,
        /// Underlying pattern error.
        source: PatternError,
    },
    /// The hash of a mask differs from the one in the file.
    #[error("parameter {name}: the mask's hash is {found}, the file says {expected}")]
    Hash {
        /// Name of the parameter.
        name: String,
        /// Hash in the metadata.
        expected: String,
        /// Hash of the mask.
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
