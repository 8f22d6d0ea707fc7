//! Tensors of parameters: leaves of the autodiff graph, masks, and indices.

use burn::module::ParamId;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

/// Changes a weight outside of the autodiff graph and makes it a leaf again, with all properties of a leaf. A tensor
/// computed on the graph would silently stop training.
pub(crate) fn edit_leaf<const D: usize>(
    id: ParamId,
    weight: Tensor<D>,
    edit: impl FnOnce(Tensor<D>) -> Tensor<D>,
) -> Tensor<D> {
    if !weight.is_autodiff() {
        return edit(weight);
    }
    let (trained, distributed) = (weight.is_require_grad(), weight.is_distributed());
    let checkpointing = weight.gradient_checkpointing_strategy();
    let mut edited = Tensor::from_inner(edit(weight.inner()));
    if let Some(strategy) = checkpointing {
        edited = edited.with_gradient_checkpointing_strategy(strategy);
    }
    if trained {
        edited = edited.require_grad();
    }
    if distributed {
        edited = edited.set_distributed(id);
    }
    edited
}

/// Uploads a mask, one byte for each weight.
pub(crate) fn mask_bytes<const D: usize>(bytes: Vec<u8>, device: &Device) -> Tensor<D, Int> {
    let shape = [bytes.len()];
    Tensor::from_data(TensorData::new(bytes, shape), (device, DType::U8))
}

/// Uploads indices.
pub(crate) fn ids<const D: usize>(ids: Vec<u32>, device: &Device) -> Tensor<D, Int> {
    let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), (device, DType::I32))
}
