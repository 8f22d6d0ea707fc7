use std::sync::{Arc, Mutex, PoisonError};

use burn::tensor::Tensor;
use burn_sparse_kernels::share_storage;

/// The dense form of a packed weight, for the calls that a dense product answers faster. It is kept while
/// the values stay the same, since to unpack costs more than a product.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unpacked(Arc<Mutex<Option<Kept>>>);

#[derive(Debug)]
struct Kept {
    /// Held, so that nobody else's values can come to lie where these do.
    values: Tensor<2>,
    dense: Tensor<2>,
}

impl Unpacked {
    /// The dense weight of `values`.
    pub(crate) fn get(&self, values: &Tensor<2>, unpack: impl FnOnce() -> Tensor<2>) -> Tensor<2> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*kept {
            Some(kept) if share_storage(&kept.values, values) => kept.dense.clone(),
            _ => {
                let dense = unpack();
                *kept = Some(Kept { values: values.clone(), dense: dense.clone() });
                dense
            }
        }
    }
}
