//! Convolutions directly on images with autodiff, on the CPU.

use burn::backend::Flex;
use burn::tensor::{DType, Tensor};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_flex::FlexTensor;
use burn_sparse_cpu::Store;

use crate::ops::{convolution_gradients, convolve, tensor};
use crate::packed::{PackedPrimitive, Spec};
use crate::{Activation, PackedTensors, Window};

type Differentiated = Autodiff<Flex>;

/// Computes the output on the CPU with autodiff, as one operator with its own gradient, without an activation; returns `None`
/// otherwise.
pub(super) fn training(
    x: &Tensor<4>,
    weight: &PackedTensors,
    bias: Option<&Tensor<1>>,
    window: &Window,
) -> Option<Tensor<4>> {
    if [x.dtype(), weight.values.dtype()] != [DType::F32; 2] {
        return None;
    }
    let bias = bias.cloned().unwrap_or_else(|| Tensor::zeros([weight.rows], &x.device()));
    let x = x.clone().try_into_primitive::<Differentiated>().ok()?;
    let values = weight.values.clone().try_into_primitive::<Differentiated>().ok()?;
    let bias = bias.try_into_primitive::<Differentiated>().ok()?;
    let parents = [x.node(), values.node(), bias.node()];
    let [x, values, bias] = [x, values, bias].map(|tensor| tensor.into_primitive().to_contiguous());
    let packed = weight.on_cpu(values)?.contiguous();
    let checked = weight.is_checked_on_cpu(&packed);
    let spec = Spec { checked, ..weight.spec(Activation::None) };
    let store = Store { bias: Some(bias.as_slice()?), activation: Activation::None };
    let y = convolve(&packed, &x, window, store, spec);
    if !checked {
        weight.set_checked();
    }
    // The first call has checked the indices, which the backward pass reads again.
    let saved = Saved { x, packed, window: *window, spec: Spec { checked: true, ..spec } };
    let prepared = Conv2d.prepare::<NoCheckpointing>(parents).compute_bound().stateful();
    let y = match prepared {
        OpsKind::Tracked(prepared) => prepared.finish(saved, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    };
    Some(Tensor::from_primitive::<Differentiated>(y))
}

/// State that the backward pass needs.
#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    packed: PackedPrimitive<Flex>,
    window: Window,
    spec: Spec,
}

#[derive(Debug)]
struct Conv2d;

impl Backward<Flex, 3> for Conv2d {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 3>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let Saved { x, packed, window, spec } = ops.state;
        let dy = grads.consume::<Flex>(&ops.node).to_contiguous();
        let [x_parent, values_parent, bias_parent] = ops.parents;
        let found = convolution_gradients(&packed, &x, &dy, &window, spec, x_parent.is_some());
        if let Some((parent, dx)) = x_parent.zip(found.x) {
            grads.register::<Flex>(parent.id, tensor(dx, x.layout().shape().clone()));
        }
        if let Some(parent) = values_parent {
            let shape = spec.shape.layout.values_shape(spec.shape.stored);
            grads.register::<Flex>(parent.id, tensor(found.values, shape));
        }
        if let Some(parent) = bias_parent {
            grads.register::<Flex>(parent.id, tensor(found.bias, [spec.shape.rows]));
        }
    }
}
