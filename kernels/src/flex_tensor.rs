use burn::backend::Flex;
use burn::backend::{BackendTensor, DispatchAutodiffContext, DispatchTensor, DispatchTensorKind};
use burn::tensor::kind::Basic;
use burn::tensor::{Int, Tensor};
use burn_autodiff::Autodiff;
use burn_flex::FlexTensor;

/// Returns the primitive of a tensor on the CPU; `None` for other tensors and those that autodiff tracks.
pub(crate) fn flex_tensor<const D: usize, K: Basic>(tensor: &Tensor<D, K>) -> Option<FlexTensor> {
    into_flex_tensor(tensor.clone()).ok()
}

/// Turns a tensor on the CPU into its primitive; returns other tensors and those that autodiff tracks.
///
/// Burn's `try_into_primitive` does the same, but moves the tensor more often, which small layers notice.
#[expect(clippy::result_large_err, reason = "a box would cost an allocation per call")]
pub(crate) fn into_flex_tensor<const D: usize, K: Basic>(
    tensor: Tensor<D, K>,
) -> Result<FlexTensor, Tensor<D, K>> {
    let DispatchTensor { kind, autodiff } = tensor.into_dispatch();
    match kind {
        DispatchTensorKind::Flex(BackendTensor::Float(tensor) | BackendTensor::Int(tensor))
            if autodiff == DispatchAutodiffContext::Disabled =>
        {
            Ok(tensor)
        }
        kind => Err(Tensor::from_dispatch(DispatchTensor { kind, autodiff })),
    }
}

/// Returns the primitive of integers on the CPU, which autodiff never tracks; `None` for other tensors.
pub(crate) fn flex_ints<const D: usize>(tensor: &Tensor<D, Int>) -> Option<FlexTensor> {
    match tensor.is_autodiff() {
        true => tensor.clone().try_into_primitive::<Autodiff<Flex>>().ok(),
        false => flex_tensor(tensor),
    }
}

/// Returns the tensor itself if it is contiguous: a clone would share its memory and thereby prevent writes to it.
pub(crate) fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}
