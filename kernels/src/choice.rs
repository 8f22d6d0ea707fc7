use std::fmt;

use serde::{Deserialize, Serialize};

use crate::KernelName;

/// Which kernel runs for a packed weight, and why.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    /// A sparse kernel.
    Sparse {
        /// The name that reports print.
        name: KernelName,
        /// What the choice rests on, where it rests on measured costs.
        predicted: Option<Predicted>,
    },
    /// A dense operator on the unpacked weight: Burn's, or [`dense_conv2d`](crate::dense_conv2d).
    Dense {
        /// Why no sparse kernel runs.
        reason: Reason,
    },
}

/// What a call is expected to take on this machine, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// With the fastest sparse kernel.
    pub sparse_us: f64,
    /// With the dense one.
    pub dense_us: f64,
}

/// Why no sparse kernel runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reason {
    /// There is none.
    Unsupported(&'static str),
    /// It would be the slower one, or too little faster to be sure.
    Slower(Predicted),
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sparse { name, .. } => write!(f, "{name}"),
            Self::Dense { reason } => write!(f, "dense, because {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unsupported(reason) => write!(f, "{reason}"),
            Self::Slower(_) => write!(f, "it is the faster one here"),
        }
    }
}

impl Choice {
    /// What the choice rests on, where it rests on measured costs.
    pub fn predicted(&self) -> Option<Predicted> {
        match *self {
            Self::Sparse { predicted, .. } => predicted,
            Self::Dense { reason: Reason::Slower(predicted) } => Some(predicted),
            Self::Dense { .. } => None,
        }
    }
}
