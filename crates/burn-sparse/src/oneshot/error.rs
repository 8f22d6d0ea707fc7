use std::path::PathBuf;

use burn_sparse_pattern::PatternError;
use thiserror::Error;

/// Why a file was not pruned; nothing is written then.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OneShotError {
    /// The input cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The output cannot be written; an older file of the name is intact.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The sparsity is no share.
    #[error("sparsity is {found}, expected a share of zeros between 0 and 1 (0.75 is 75 %)")]
    Sparsity {
        /// The value given.
        found: f64,
    },
    /// The input is no safetensors file.
    #[error("{} is no complete safetensors file: {reason}", path.display())]
    Safetensors {
        /// The file.
        path: PathBuf,
        /// What the reader found.
        reason: String,
    },
    /// The input is a packed checkpoint, whose arrays are no weight matrices.
    #[error(
        "{} is a burn-sparse checkpoint: export it first, with --format dense --layout pytorch",
        path.display()
    )]
    Checkpoint {
        /// The file.
        path: PathBuf,
    },
    /// A glob that cannot be read.
    #[error("--include {text}: {reason}")]
    Glob {
        /// What was given.
        text: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// Nothing to prune.
    #[error("no float tensor with 2 or 4 axes in {} matches {}; it has {known}", path.display(), include.join(", "))]
    NoMatch {
        /// The file.
        path: PathBuf,
        /// What was looked for.
        include: Vec<String>,
        /// The tensors that could be pruned.
        known: String,
    },
    /// A tensor that the pattern does not fit, or that holds NaN or infinity.
    #[error("tensor {name}: {source}")]
    Pattern {
        /// The tensor.
        name: String,
        /// Why.
        source: PatternError,
    },
}
