use burn_sparse_pattern::PatternError;
use thiserror::Error;

use crate::recipe::RecipeError;

/// Why a recipe cannot be applied to a model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// The recipe itself is wrong.
    #[error(transparent)]
    Recipe(#[from] RecipeError),
    /// A glob or regular expression that cannot be read.
    #[error("recipe, key `prune[{table}].{key}`: `{text}` is no selector: {reason}")]
    Selector {
        /// The index of the `[[prune]]` table.
        table: usize,
        /// `params` or `except`.
        key: &'static str,
        /// What was written.
        text: String,
        /// Why it cannot be read.
        reason: String,
    },
    /// A selector that matches nothing.
    #[error(
        "recipe, key `prune[{table}].{key}`: `{text}` matches no {what} of the model; it has {known}"
    )]
    NoMatch {
        /// The index of the `[[prune]]` table.
        table: usize,
        /// `params` or `except`.
        key: &'static str,
        /// What was written.
        text: String,
        /// What was looked for.
        what: &'static str,
        /// What there is.
        known: String,
    },
    /// A pattern that a parameter's shape does not allow at this sparsity.
    #[error("parameter {name} ({rows}x{cols}): {source}")]
    Pattern {
        /// The parameter.
        name: String,
        /// Its outputs.
        rows: usize,
        /// Its reduction.
        cols: usize,
        /// Why.
        source: PatternError,
    },
    /// A ramp that training cannot hold.
    #[error("recipe, key `prune[{table}].{key}`: {reason}")]
    Ramp {
        /// The index of the `[[prune]]` table.
        table: usize,
        /// The key.
        key: &'static str,
        /// Why.
        reason: String,
    },
    /// The recipe keeps the zeros of a checkpoint, and there is none.
    #[error(
        "recipe, key `train.keep_zeros`: is true, but there is no packed checkpoint to keep the \
             zeros of; give one (`train --from FILE`)"
    )]
    NothingToKeep,
    /// A parameter that something else transforms already.
    #[error(
        "parameter {name} already has the reparameterization `{found}`; materialize the model first"
    )]
    Reparameterized {
        /// The parameter.
        name: String,
        /// What hangs on it.
        found: String,
    },
}
