use std::path::PathBuf;

use burn_sparse::calibrate::CalibrateError;
use burn_sparse::prune::{ConfigError, PlanError};
use thiserror::Error;

/// Malformed recipe.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read recipe {}: {source}", path.display())]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// Syntax error, unknown key, or value of the wrong type.
    #[error("recipe{}: {reason}{}", place(.line), hint(.suggestion))]
    Syntax {
        /// Line, from 1, if known.
        line: Option<usize>,
        /// Cause, and what was expected.
        reason: String,
        /// Key that was probably meant.
        suggestion: Option<String>,
    },
    /// Value out of range or in conflict with another one.
    #[error("recipe, key `{key}`: {reason}")]
    Value {
        /// Path of the key.
        key: String,
        /// Found and expected values.
        reason: String,
    },
    /// A `[[prune]]` table that no model could satisfy.
    #[error("recipe, {0}")]
    Prune(#[from] ConfigError),
    /// A plan that does not fit the model.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A plan that calibration cannot follow.
    #[error("recipe, table `calibrate`: {0}")]
    Calibrate(#[from] CalibrateError),
    /// Command-line override that is not `key=value`.
    #[error("--set {text}: expected key=value, as in train.batch_size=64 or prune.sparsity=0.9")]
    Override {
        /// The override.
        text: String,
    },
}

fn place(line: &Option<usize>) -> String {
    line.map_or(String::new(), |line| format!(", line {line}"))
}

fn hint(suggestion: &Option<String>) -> String {
    suggestion.as_ref().map_or(String::new(), |word| format!("; did you mean `{word}`?"))
}

impl RecipeError {
    /// Converts a TOML error, with its line and the known key nearest to an unknown one.
    pub(crate) fn from_toml(error: &toml::de::Error, text: &str) -> Self {
        let line = error.span().map(|span| {
            let before = &text.as_bytes()[..span.start.min(text.len())];
            1 + before.iter().filter(|&&byte| byte == b'\n').count()
        });
        let reason = error.message().trim().to_string();
        // "unknown field `x`, expected one of `a`, `b`": the first word is wrong, the rest are known.
        let mut words = reason.split('`').skip(1).step_by(2);
        let wrong = words.next().unwrap_or_default();
        let suggestion = words
            .map(|word| (strsim::damerau_levenshtein(wrong, word), word))
            .filter(|&(distance, word)| distance <= 2 + word.len() / 5)
            .min()
            .map(|(_, word)| word.to_string());
        Self::Syntax { line, reason, suggestion }
    }

    pub(crate) fn value(key: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Value { key: key.into(), reason: reason.into() }
    }
}
