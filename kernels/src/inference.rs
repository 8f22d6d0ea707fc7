use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use burn_sparse_cpu::Store;

use crate::kernel_name::OnDevice;
use crate::ops::{floats, into_on_cpu, on_cpu};
use crate::packed::{PackedPrimitive, Spec};
use crate::{Activation, PackedTensors};

/// Computes a product with a packed weight on the CPU without autodiff, with `multiply`; returns `x` otherwise.
///
/// [`SparseOps`](crate::SparseOps) would clone and move every tensor several times, which takes longer than the product of a
/// small layer.
#[expect(clippy::result_large_err, reason = "a box would cost an allocation per call")]
pub(crate) fn inference<const D: usize>(
    x: Tensor<D>,
    weight: &PackedTensors,
    bias: Option<&Tensor<1>>,
    activation: Activation,
    kernel: Option<OnDevice>,
    multiply: impl FnOnce(&PackedPrimitive<Flex>, &FlexTensor, Store<'_>, Spec) -> FlexTensor,
) -> Result<Tensor<D>, Tensor<D>> {
    let Some(primitives) = weight.primitives() else { return Err(x) };
    let bias = match bias.map(on_cpu) {
        Some(None) => return Err(x),
        Some(bias) => bias,
        None => None,
    };
    let bias = bias.as_ref().map(floats);
    let x = into_on_cpu(x)?;
    let checked = primitives.is_checked();
    let spec = Spec { kernel, checked, ..weight.spec(activation) };
    let y = multiply(&primitives.packed, &x, Store { bias, activation }, spec);
    if !checked {
        weight.set_checked_on_cpu(primitives);
    }
    Ok(Tensor::from_primitive::<Flex>(y))
}
