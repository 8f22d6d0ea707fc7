use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A point in time or a duration in training, in optimizer steps or in epochs.
///
/// A recipe spells it `"3 epochs"`, `"0.5 epochs"` or `"100 steps"`.
///
/// ```
/// use burn_sparse::prune::Moment::{self, Epochs, Steps};
///
/// assert_eq!("100 steps".parse(), Ok(Steps(100)));
/// assert_eq!(Epochs(0.5).to_string(), "0.5 epochs");
/// # let _: Moment = Steps(1);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Moment {
    /// Passes over the training data.
    Epochs(f64),
    /// Optimizer steps.
    Steps(usize),
}

/// Largest count that a moment may have.
const LARGEST: f64 = 1e9;

impl Moment {
    /// Returns `true` if the moment is zero.
    pub(crate) fn is_zero(&self) -> bool {
        matches!(*self, Self::Steps(0) | Self::Epochs(0.0))
    }

    /// Checks that the count is in range.
    pub(crate) fn validate(&self) -> Result<(), String> {
        match *self {
            Self::Epochs(count) if (0.0..=LARGEST).contains(&count) => Ok(()),
            Self::Steps(count) if count as f64 <= LARGEST => Ok(()),
            other => Err(format!("is \"{other}\", expected 0 to {LARGEST:e}")),
        }
    }
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fail =
            || format!("`{text}` is not a moment, expected as in \"3 epochs\" or \"100 steps\"");
        let (count, unit) = text.trim().split_once(' ').ok_or_else(fail)?;
        let count: f64 = count.parse().map_err(|_| fail())?;
        let moment = match unit.trim() {
            "epoch" | "epochs" => Self::Epochs(count),
            "step" | "steps" if count.fract() == 0.0 && count >= 0.0 => Self::Steps(count as usize),
            _ => return Err(fail()),
        };
        moment.validate().map(|()| moment).map_err(|_| fail())
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
        match self {
            Self::Epochs(count) => write!(f, "{count} epochs"),
            Self::Steps(count) => write!(f, "{count} steps"),
        }
    }
}

impl From<Moment> for String {
    fn from(moment: Moment) -> Self {
        moment.to_string()
    }
}
