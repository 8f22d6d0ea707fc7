use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use burn_sparse_cpu::Store;

use crate::flex_tensor::flex_tensor;
use crate::kernel_name::OnDevice;
use crate::ops::{on_cpu, reads};
use crate::packed::{PackedPrimitive, Spec};
use crate::{Activation, PackedTensors};

/// Computes a product with a packed weight on the CPU without autodiff, with `multiply`; returns `None` otherwise.
///
/// [`SparseOps`](crate::SparseOps) would clone and move every tensor several times, which takes longer than the product of a
/// small layer.
pub(crate) fn inference<const D: usize>(
    x: &Tensor<D>,
    weight: &PackedTensors,
    bias: Option<&Tensor<1>>,
    activation: Activation,
    kernel: Option<OnDevice>,
    multiply: impl FnOnce(PackedPrimitive<Flex>, &FlexTensor, Store<'_>, Spec) -> FlexTensor,
) -> Option<Tensor<D>> {
    if !reads(weight.values.dtype()) {
        return None;
    }
    let (x, values) = (on_cpu(x)?, flex_tensor(&weight.values)?);
    let bias = match bias {
        Some(bias) => Some(on_cpu(bias)?),
        None => None,
    };
    let bias = match &bias {
        Some(bias) => Some(bias.as_slice::<f32>()?),
        None => None,
    };
    let packed = weight.on_cpu(values)?;
    let checked = weight.is_checked_on_cpu(&packed);
    let spec = Spec { kernel, checked, ..weight.spec(activation) };
    let y = multiply(packed, &x, Store { bias, activation }, spec);
    if !checked {
        weight.set_checked();
    }
    Some(Tensor::from_primitive::<Flex>(y))
}
