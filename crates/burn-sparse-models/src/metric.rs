use std::fmt;

use serde::{Deserialize, Serialize};

/// A measure of quality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// What is measured: `accuracy`, `bits_per_character`, `bleu`.
    pub name: String,
    /// Its value; for shares, 0 to 1; for `bleu`, 0 to 100.
    pub value: f64,
}

impl Metric {
    pub(crate) fn new(name: &str, value: f64) -> Self {
        Self { name: name.into(), value }
    }

    /// A value of the metric of this name as people write it: shares in percent.
    pub fn written(name: &str, value: f64) -> String {
        match name {
            "accuracy" => format!("{:.2} %", 100.0 * value),
            "bleu" => format!("{value:.2}"),
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
