use std::path::PathBuf;

use burn_sparse_pattern::PatternError;
use thiserror::Error;

/// Failure to prune a file; nothing has been written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OneShotError {
    /// The input cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The output cannot be written; an existing file is intact.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The sparsity is not a share.
    #[error("sparsity is {found}, expected a share of zeros between 0 and 1 (0.75 is 75 %)")]
    Sparsity {
        /// The value.
        found: f64,
    },
    /// The cap of a global distribution does not allow the sparsity.
    #[error("cap is {found}, expected {sparsity} or more, and below 1")]
    Cap {
        /// The cap.
        found: f64,
        /// The sparsity.
        sparsity: f64,
    },
    /// The input is not a safetensors file.
    #[error("{} is not a complete safetensors file: {reason}", path.display())]
    Safetensors {
        /// File.
        path: PathBuf,
        /// Cause.
        reason: String,
    },
    /// The input is not the index of a sharded safetensors file, or does not match its shards.
    #[error("{}: {reason}", path.display())]
    Index {
        /// File.
        path: PathBuf,
        /// Cause.
        reason: String,
    },
    /// A folder that is to get shards already holds a file of that name.
    #[error("{} already exists: choose another folder", path.display())]
    Exists {
        /// File.
        path: PathBuf,
    },
    /// The input is a packed checkpoint, whose arrays are not weight matrices.
    #[error(
        "{} is a burn-sparse checkpoint: export it first, with --format dense --layout pytorch",
        path.display()
    )]
    Checkpoint {
        /// File.
        path: PathBuf,
    },
    /// A malformed glob.
    #[error("--include {text}: {reason}")]
    Glob {
        /// The glob.
        text: String,
        /// Cause.
        reason: String,
    },
    /// No tensor matches.
    #[error("no float tensor with 2 or 4 axes in {} matches {}; it has {known}", path.display(), include.join(", "))]
    NoMatch {
        /// File.
        path: PathBuf,
        /// Globs.
        include: Vec<String>,
        /// Tensors that could be pruned.
        known: String,
    },
    /// The pattern does not fit a tensor, or a tensor holds NaN or infinity.
    #[error("tensor {name}: {source}")]
    Pattern {
        /// Name of the tensor.
        name: String,
        /// Cause.
        source: PatternError,
    },
}
