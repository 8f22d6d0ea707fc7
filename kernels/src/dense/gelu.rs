use burn::backend::Flex;
use burn::tensor::{DType, Tensor};
use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::NoCheckpointing;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind, unary};
use burn_flex::FlexTensor;
use burn_sparse_cpu::Isa;
use burn_sparse_cpu::dense::{Function, Rows, apply};

use crate::ops::{on_cpu, tensor};

/// Computes `x Φ(x)` with the normal distribution Φ: the exact GELU (Hendrycks and Gimpel, 2016). On the CPU, it and
/// its gradient take one vectorized pass each, where Burn computes the error function value by value.
///
/// # Shapes
/// - `x` and the output: any
pub fn gelu<const D: usize>(x: Tensor<D>) -> Tensor<D> {
    let found = if x.is_autodiff() { tracked(&x) } else { untracked(&x) };
    found.unwrap_or_else(|| burn::tensor::activation::gelu(x))
}

fn untracked<const D: usize>(x: &Tensor<D>) -> Option<Tensor<D>> {
    let y = forward(&on_cpu(x)?, x.dims())?;
    Some(Tensor::from_primitive::<Flex>(y))
}

fn tracked<const D: usize>(x: &Tensor<D>) -> Option<Tensor<D>> {
    type Differentiated = Autodiff<Flex>;
    if x.dtype() != DType::F32 {
        return None;
    }
    let shape = x.dims();
    let x = x.clone().try_into_primitive::<Differentiated>().ok()?;
    let node = x.node();
    let x = x.into_primitive().to_contiguous();
    let y = forward(&x, shape)?;
    let y = match Gelu.prepare::<NoCheckpointing>([node]).compute_bound().stateful() {
        OpsKind::Tracked(prepared) => prepared.finish(Saved { x, shape: shape.to_vec() }, y),
        OpsKind::UnTracked(prepared) => prepared.finish(y),
    };
    Some(Tensor::from_primitive::<Differentiated>(y))
}

fn forward<const D: usize>(x: &FlexTensor, shape: [usize; D]) -> Option<FlexTensor> {
    let a = x.as_slice()?;
    Some(tensor(apply(Isa::detect(), Function::Gelu, rows(a, a, &shape)), shape))
}

/// Divides all values into rows along the last axis, for threads to share.
fn rows<'a>(a: &'a [f32], b: &'a [f32], shape: &[usize]) -> Rows<'a> {
    let width = shape.last().copied().unwrap_or(1);
    Rows { count: a.len().checked_div(width).unwrap_or(0), width, a, b, strides: [width; 2] }
}

#[derive(Debug, Clone)]
struct Saved {
    x: FlexTensor,
    shape: Vec<usize>,
}

#[derive(Debug)]
struct Gelu;

impl Backward<Flex, 1> for Gelu {
    type State = Saved;

    fn backward(self, ops: Ops<Saved, 1>, grads: &mut Gradients, _checkpointer: &mut Checkpointer) {
        let Saved { x, shape } = ops.state;
        unary::<Flex, _>(ops.parents, ops.node, grads, |dy| {
            let dy = dy.to_contiguous();
            let (Some(x), Some(dy)) = (x.as_slice(), dy.as_slice()) else {
                unreachable!("both are contiguous, of floats");
            };
            tensor(apply(Isa::detect(), Function::GeluGradient, rows(x, dy, &shape)), shape)
        });
    }
}
