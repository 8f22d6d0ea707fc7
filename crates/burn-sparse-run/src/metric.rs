use std::fmt;

use serde::{Deserialize, Serialize};

use crate::run_error::RunError;

/// Quality of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// Name: `accuracy`, `bits_per_character`, `bleu`, `spearman`, `perplexity`.
    pub name: String,
    /// Value: shares from 0 to 1, `bleu` from 0 to 100.
    pub value: f64,
}

impl Metric {
    pub(crate) fn new(name: &str, value: f64) -> Self {
        Self { name: name.into(), value }
    }

    /// Returns the metric.
    ///
    /// # Errors
    /// Returns an error if its value is not finite: the model's outputs are not, or are far from any sensible ones.
    pub fn finite(self) -> Result<Self, RunError> {
        let Self { name, value } = self;
        match value.is_finite() {
            true => Ok(Self { name, value }),
            false => Err(RunError::NotFinite { name, value }),
        }
    }

    /// Formats a value of the metric of this name; shares in percent.
    pub fn written(name: &str, value: f64) -> String {
        match name {
            "accuracy" => format!("{:.2} %", 100.0 * value),
            "bleu" | "perplexity" => format!("{value:.2}"),
            "spearman" => format!("{value:.4}"),
            _ => format!("{value:.3}"),
        }
    }
}

/// `accuracy 98.43 %`.
impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name.replace('_', " "), Self::written(&self.name, self.value))
    }
}
