use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a moment is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Passes over the training data.
    Epochs,
    /// Optimizer steps.
    Steps,
}

/// A point in training, or a stretch of it: `"3 epochs"`, `"0.5 epochs"`, `"100 steps"`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment {
    /// How many.
    pub value: f64,
    /// Of what.
    pub unit: Unit,
}

impl Moment {
    /// A number of optimizer steps.
    pub const fn steps(value: usize) -> Self {
        Self { value: value as f64, unit: Unit::Steps }
    }

    /// A number of epochs.
    pub const fn epochs(value: f64) -> Self {
        Self { value, unit: Unit::Epochs }
    }

    /// The nearest whole number of steps.
    pub fn in_steps(&self, steps_per_epoch: usize) -> usize {
        match self.unit {
            Unit::Epochs => (self.value * steps_per_epoch as f64).round() as usize,
            Unit::Steps => self.value.round() as usize,
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail =
            || format!("`{text}` is no moment, expected as in \"3 epochs\" or \"100 steps\"");
        let (value, unit) = text.trim().split_once(' ').ok_or_else(fail)?;
        let value: f64 = value.parse().map_err(|_| fail())?;
        let unit = match unit.trim() {
            "epoch" | "epochs" => Unit::Epochs,
            "step" | "steps" => Unit::Steps,
            _ => return Err(fail()),
        };
        let whole = unit == Unit::Epochs || value.fract() == 0.0;
        if (0.0..=1e9).contains(&value) && whole { Ok(Self { value, unit }) } else { Err(fail()) }
    }
}

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = match self.unit {
            Unit::Epochs => "epochs",
            Unit::Steps => "steps",
        };
        write!(f, "{} {unit}", self.value)
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.to_string()
    }
}
