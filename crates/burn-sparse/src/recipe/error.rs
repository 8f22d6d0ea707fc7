use std::path::PathBuf;

use burn_sparse_pattern::PatternError;
use thiserror::Error;

/// Why a recipe was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// The file cannot be read.
    #[error("cannot read recipe {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system answered.
        source: std::io::Error,
    },
    /// The text is no recipe: a syntax error, an unknown key, a value of the wrong type.
    #[error("recipe{}: {reason}{}", place(.line), hint(.suggestion))]
    Syntax {
        /// The line, from 1, where one is known.
        line: Option<usize>,
        /// What is wrong, and what would be right.
        reason: String,
        /// The key that was probably meant.
        suggestion: Option<String>,
    },
    /// A value that cannot be.
    #[error("recipe, key `{key}`: {reason}")]
    Value {
        /// The key, as a path.
        key: String,
        /// What was found and what was expected.
        reason: String,
    },
    /// A pattern or sparsity that cannot be.
    #[error("recipe, key `{key}`: {source}")]
    Pattern {
        /// The key, as a path.
        key: String,
        /// Why.
        source: PatternError,
    },
    /// An override of the command line that is no `key=value`.
    #[error("--set {text}: expected key=value, as in train.batch_size=64 or prune.sparsity=0.9")]
    Override {
        /// What was given.
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
    /// Explains a TOML error: its line, and the known word nearest to an unknown one.
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
