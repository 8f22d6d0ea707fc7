use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::{DType, Device, Tensor};
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
}

/// The dense form of a weight.
#[derive(Debug)]
struct Dense {
    /// Held, so that no other values can come to lie where these do.
    _values: Tensor<2>,
    place: Option<Place>,
    dense: Tensor<2>,
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
    pub(crate) fn dense(
        &self,
        values: Tensor<2>,
        unpack: impl FnOnce(&Tensor<2>) -> Tensor<2>,
    ) -> Tensor<2> {
        let place = Place::of(&values);
        let mut state = self.state();
        match &state.dense {
            Some(kept) if place.is_some() && kept.place == place => kept.dense.clone(),
            _ => {
                let dense = unpack(&values);
                state.dense = Some(Dense { _values: values, place, dense: dense.clone() });
                dense
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
