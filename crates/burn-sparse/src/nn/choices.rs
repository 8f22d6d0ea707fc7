use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::{DType, Device, Tensor};
use burn_sparse_kernels::{Choice, Costs};

/// Last kernel choice for a packed weight: choosing again would take at least as long as running a small layer.
#[derive(Debug, Clone, Default)]
pub(super) struct LastChoice(Arc<Mutex<Option<(Call, Choice)>>>);

/// Inputs of a kernel choice besides the weight.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) tokens: usize,
    pub(super) dtype: DType,
    pub(super) device: Device,
    /// Devices compare equal whether they are tracked by autodiff or not.
    autodiff: bool,
    /// Costs that the choice is based on.
    costs: u64,
}

impl Call {
    /// Describes a call with this input.
    pub(super) fn new<const D: usize>(tokens: usize, input: &Tensor<D>) -> Self {
        let (dtype, device) = (input.dtype(), input.device());
        Self { tokens, dtype, autodiff: device.is_autodiff(), device, costs: Costs::generation() }
    }
}

impl LastChoice {
    /// Returns the last choice if it was for an equal call, or else makes a new one with `choose`.
    pub(super) fn get_or(&self, call: Call, choose: impl FnOnce(&Call) -> Choice) -> Choice {
        let last = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((last, choice)) = &*last()
            && *last == call
        {
            return *choice;
        }
        // Without the lock: choosing may time kernels on a GPU, and a waiting thread may be given other work.
        let choice = choose(&call);
        *last() = Some((call, choice));
        choice
    }
}
