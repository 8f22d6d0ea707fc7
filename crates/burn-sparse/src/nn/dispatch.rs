use std::cell::RefCell;

use burn::module::ParamId;
use burn_sparse_kernels::Choice;

/// A packed weight that was used, and what ran for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Dispatched {
    /// The weight.
    pub weight: ParamId,
    /// What ran.
    pub choice: Choice,
    /// Rows of the product's input: samples, times the steps of a sequence or the pixels of a convolution's output.
    pub tokens: usize,
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

pub(crate) fn dispatched(weight: ParamId, choice: &Choice, tokens: usize) {
    tracing::trace!(%weight, %choice, tokens, "dispatch");
    RECORD.with_borrow_mut(|record| {
        if let Some(record) = record {
            record.push(Dispatched { weight, choice: *choice, tokens });
        }
    });
}
