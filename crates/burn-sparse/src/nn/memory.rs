use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::{DType, Device, Shape, Tensor};
use burn_sparse_kernels::{Choice, Place};

/// What a packed weight remembers from one call to the next: small layers run for no longer than it takes
/// to find this out again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Memory(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    choice: Option<(Call, Choice)>,
    dense: Option<Dense>,
}

/// What a choice of kernel depends on, beside the weight.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) tokens: usize,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
    /// Devices are equal whether they train or not.
    trains: bool,
}

impl Call {
    /// A call with this input.
    pub(crate) fn new<const D: usize>(tokens: usize, input: &Tensor<D>) -> Self {
        let (dtype, device) = (input.dtype(), input.device());
        Self { tokens, dtype, trains: device.is_autodiff(), device }
    }
}

/// The dense form of a weight.
#[derive(Debug)]
struct Dense {
    /// Held, so that no other values can come to lie where these do.
    _values: Tensor<1>,
    place: Option<Place>,
    dense: Tensor<1>,
    shape: Shape,
}

impl Memory {
    /// The choice for a call, made by `choose` unless the last call was like it.
    pub(crate) fn choice(&self, call: Call, choose: impl FnOnce(&Call) -> Choice) -> Choice {
        if let Some((last, choice)) = &self.state().choice
            && *last == call
        {
            return *choice;
        }
        // Not under the lock: to choose may measure, and a thread that measures may be given other work.
        let choice = choose(&call);
        self.state().choice = Some((call, choice));
        choice
    }

    /// The dense weight of `values`, unpacked once for as long as they stay the same.
    pub(crate) fn dense<const D: usize, const E: usize>(
        &self,
        values: Tensor<D>,
        unpack: impl FnOnce(&Tensor<D>) -> Tensor<E>,
    ) -> Tensor<E> {
        let place = Place::of(&values);
        if let Some(kept) = &self.state().dense
            && place.is_some()
            && kept.place == place
        {
            return kept.dense.clone().reshape(kept.shape.clone());
        }
        // Not under the lock, as above: to unpack may spread over threads.
        let dense = unpack(&values);
        let (values, shape) = (values.flatten(0, D - 1), dense.shape());
        let flat = dense.clone().flatten(0, E - 1);
        self.state().dense = Some(Dense { _values: values, place, dense: flat, shape });
        dense
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
