use std::cell::RefCell;

use burn::module::ParamId;
use burn_sparse_kernels::{Choice, Window};
use serde::{Deserialize, Serialize};

/// A packed weight that was used, and what ran for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatched {
    /// The weight.
    pub weight: ParamId,
    /// What ran.
    pub choice: Choice,
    /// What it was multiplied with.
    pub input: Input,
}

/// What a weight is multiplied with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Input {
    /// Rows of a product's input: samples, times the steps of a sequence.
    Tokens(usize),
    /// What a convolution looks at.
    Pictures {
        /// `[batch, in, height, width]`.
        shape: [usize; 4],
        /// How it looks at them.
        window: Window,
    },
}

impl Input {
    /// Rows of the product's input: for pictures, the pixels of the output.
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

/// Runs `forward` and tells which kernel ran for every packed weight: the proof of dispatch, taken
/// where the kernel is called and not where it was planned.
pub fn record_dispatch<R>(forward: impl FnOnce() -> R) -> (R, Vec<Dispatched>) {
    let outer = RECORD.replace(Some(Vec::new()));
    let result = forward();
    (result, RECORD.replace(outer).unwrap_or_default())
}

pub(crate) fn dispatched(weight: ParamId, choice: &Choice, input: Input) {
    tracing::trace!(%weight, %choice, tokens = input.tokens(), "dispatch");
    RECORD.with_borrow_mut(|record| {
        if let Some(record) = record {
            record.push(Dispatched { weight, choice: *choice, input });
        }
    });
}
