use std::fmt;

use serde::{Deserialize, Serialize};

use crate::KernelName;

/// Kernel that runs for a packed weight, and the reason.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Choice {
    /// A sparse kernel.
    Sparse {
        /// Name of the kernel, as reports print it.
        name: KernelName,
        /// Predicted times that the choice is based on, if any.
        predicted: Option<Predicted>,
    },
    /// A dense operator on the unpacked weight: Burn's, or [`dense_conv2d`](crate::dense_conv2d).
    Dense {
        /// Reason why no sparse kernel runs.
        reason: Reason,
    },
}

/// Predicted time of a call on this machine, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Time of the fastest sparse kernel.
    pub sparse_us: f64,
    /// Time of the dense operator.
    pub dense_us: f64,
}

/// Reason why no sparse kernel runs.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Reason {
    /// No sparse kernel supports the call.
    Unsupported(&'static str),
    /// The dense operator is predicted to be faster, or hardly slower.
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
    /// Returns the predicted times that the choice is based on, if any.
    pub fn predicted(&self) -> Option<Predicted> {
        match *self {
            Self::Sparse { predicted, .. } => predicted,
            Self::Dense { reason: Reason::Slower(predicted) } => Some(predicted),
            Self::Dense { .. } => None,
        }
    }
}
