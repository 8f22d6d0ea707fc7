use std::cell::RefCell;

use burn::module::ParamId;
use burn_sparse_kernels::{Choice, Window};
use serde::{Deserialize, Serialize};

use super::recording::recording;

/// Use of a packed weight, and the kernel that ran.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Dispatched {
    /// Id of the weight.
    pub weight: ParamId,
    /// Kernel that ran, or the reason why none did.
    pub choice: Choice,
    /// Input that the weight was multiplied with.
    pub input: KernelInput,
}

/// Input that a packed weight is multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelInput {
    /// Tokens: samples, times the steps of a sequence.
    Tokens(usize),
    /// Images of a convolution.
    Pictures {
        /// `[batch, in, height, width]`.
        shape: [usize; 4],
        /// Geometry of the convolution.
        window: Window,
    },
}

impl KernelInput {
    /// Returns the number of tokens or images.
    pub fn inputs(&self) -> usize {
        match *self {
            Self::Tokens(tokens) => tokens,
            Self::Pictures { shape: [pictures, ..], .. } => pictures,
        }
    }

    /// Returns the number of tokens; for images, the number of pixels of the output.
    pub fn tokens(&self) -> usize {
        match self {
            Self::Tokens(tokens) => *tokens,
            Self::Pictures { shape: [batch, _, height, width], window } => {
                batch * window.output([*height, *width]).iter().product::<usize>()
            }
        }
    }
}

thread_local! {
    static RECORD: RefCell<Option<Vec<Dispatched>>> = const { RefCell::new(None) };
}

/// Runs `forward`, and returns its result with the kernel that ran for every packed weight, recorded where the kernel is
/// called, not where it was planned.
pub fn record_dispatch<R>(forward: impl FnOnce() -> R) -> (R, Vec<Dispatched>) {
    recording(&RECORD, Vec::new(), forward)
}

pub(super) fn dispatched(weight: ParamId, choice: &Choice, input: KernelInput) {
    tracing::trace!(%weight, %choice, tokens = input.tokens(), "dispatch");
    RECORD.with_borrow_mut(|record| {
        if let Some(record) = record {
            record.push(Dispatched { weight, choice: *choice, input });
        }
    });
}
