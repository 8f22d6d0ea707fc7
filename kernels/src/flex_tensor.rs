use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn::tensor::Tensor;
use burn::tensor::kind::Basic;
use burn_flex::FlexTensor;

/// Returns the primitive of a tensor on the CPU; `None` for other tensors and those that autodiff tracks.
///
/// Burn's `try_into_primitive` does the same, but moves the tensor more often, which small layers notice.
pub(crate) fn flex_tensor<const D: usize, K: Basic>(tensor: &Tensor<D, K>) -> Option<FlexTensor> {
    let DispatchTensor { kind, autodiff } = tensor.clone().into_dispatch();
    match kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor) | BackendTensor::Int(tensor))
            if autodiff == DispatchAutodiffContext::Disabled =>
        {
            Some(tensor)
        }
        _ => None,
    }
}
