use burn_sparse_pattern::PatternError;
use thiserror::Error;

/// A pruning rule that no model could satisfy.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A value out of range, missing, or in conflict with another one.
    #[error("key `{key}`: {reason}")]
    Value {
        /// Path of the key, as in `prune[0].sparsity`.
        key: String,
        /// Found and expected values.
        reason: String,
    },
    /// A pattern whose parameters are out of range.
    #[error("key `{key}`: {source}")]
    Pattern {
        /// Path of the key.
        key: String,
        /// Cause.
        source: PatternError,
    },
}

impl ConfigError {
    pub(super) fn value(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { key: key.into(), reason: reason.into() }
    }
}

/// Pruning rules that cannot be applied to a model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanError {
    /// A rule is wrong for every model.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A malformed glob or regular expression.
    #[error("key `prune[{table}].{key}`: `{text}` is not a selector: {reason}")]
    Selector {
        /// Index of the rule.
        table: usize,
        /// `params` or `except`.
        key: &'static str,
        /// The selector.
        text: String,
        /// Cause.
        reason: String,
    },
    /// A selector that matches nothing.
    #[error("key `prune[{table}].{key}`: `{text}` matches no {what} of the model; it has {known}")]
    NoMatch {
        /// Index of the rule.
        table: usize,
        /// `params` or `except`.
        key: &'static str,
        /// The selector.
        text: String,
        /// Kind of parameter that was looked for.
        what: &'static str,
        /// Parameters of the model, with a star for numbers, or `none`.
        known: String,
    },
    /// A pattern that does not fit a parameter's shape at the target sparsity.
    #[error("parameter {name} ({rows}x{cols}): {source}")]
    Pattern {
        /// Path of the parameter.
        name: String,
        /// Number of outputs.
        rows: usize,
        /// Size of the reduction.
        cols: usize,
        /// Cause.
        source: PatternError,
    },
    /// A ramp that does not fit the horizon.
    #[error("key `prune[{table}].{key}`: {reason}")]
    Ramp {
        /// Index of the rule.
        table: usize,
        /// The key.
        key: &'static str,
        /// Cause.
        reason: String,
    },
    /// A rule selects a shared parameter by another name than its first, under which no rule or another one selects it.
    #[error(
        "parameter {name} is the same as {first}, which the rule does not select: use that name"
    )]
    Shared {
        /// Selected path.
        name: String,
        /// First path of the parameter.
        first: String,
    },
    /// A parameter that already has another reparameterization.
    #[error(
        "parameter {name} already has the reparameterization `{found}`; materialize the model first"
    )]
    Reparameterized {
        /// Path of the parameter.
        name: String,
        /// Name of the reparameterization.
        found: String,
    },
}
