use burn::backend::Flex;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{Bytes, DType, Shape, Tensor};
use burn_flex::FlexTensor;
use burn_sparse_cpu::gradient::{self, Conv2dGradients};
use burn_sparse_cpu::{Isa, PackedWeight, Parts, Store, Values, conv2d, masked, run};

use super::SparseOps;
use crate::Window;
use crate::cost::Costs;
use crate::flex_tensor::{contiguous, into_flex_tensor};
use crate::kernel_name::OnDevice;
use crate::packed::{PackedPrimitive, Spec};

impl SparseOps for Flex {
    fn sparse_linear(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let (x, bias) = (contiguous(x), contiguous(bias));
        let bias = floats(&bias);
        let bias = (!bias.is_empty()).then_some(bias);
        multiply(&weight.contiguous(), &x, Store { bias, activation: spec.activation }, spec)
    }

    fn sparse_linear_dx(
        dy: FloatTensor<Self>,
        weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let weight = weight.contiguous();
        let dy = dy.to_contiguous();
        let dy = floats(&dy);
        let n = dy.len() / spec.shape.rows;
        let mut dx = vec![0.0; n * spec.shape.cols];
        gradient::dx(Isa::detect(), &checked(&weight, spec), dy, &mut dx);
        tensor(dx, [n, spec.shape.cols])
    }

    fn sparse_linear_dw(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let weight = weight.contiguous();
        let (x, dy) = (x.to_contiguous(), dy.to_contiguous());
        let (x, dy) = (floats(&x), floats(&dy));
        let dw = gradient::dw(Isa::detect(), &checked(&weight, spec), x, dy);
        tensor(dw, spec.shape.layout.values_shape(spec.shape.stored))
    }

    fn apply_mask(weight: FloatTensor<Self>, mask: IntTensor<Self>) -> FloatTensor<Self> {
        let (mut weight, mask) = (contiguous(weight), contiguous(mask));
        let isa = Isa::detect();
        if let Some(weight_mut) = whole(&mut weight) {
            masked::mask(isa, weight_mut, bytes(&mask));
            return weight;
        }
        let shape = weight.layout().shape().clone();
        let out = masked::masked(isa, floats(&weight), bytes(&mask));
        tensor(out, shape)
    }

    fn decay_dropped(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: IntTensor<Self>,
        factor: f32,
    ) -> FloatTensor<Self> {
        let (mut grad, weight, mask) = (contiguous(grad), contiguous(weight), contiguous(mask));
        if whole(&mut grad).is_none() {
            let shape = grad.layout().shape().clone();
            grad = tensor(floats(&grad).to_vec(), shape);
        }
        if let Some(grad) = whole(&mut grad) {
            masked::decay(Isa::detect(), grad, floats(&weight), bytes(&mask), factor);
        }
        grad
    }
}

/// Returns the whole memory of a contiguous tensor for writing, if nothing else reads it.
pub(crate) fn whole(tensor: &mut FlexTensor) -> Option<&mut [f32]> {
    let elements = tensor.layout().num_elements();
    let storage = tensor.try_storage_mut::<f32>()?;
    (storage.len() == elements).then_some(storage)
}

fn bytes(mask: &FlexTensor) -> &[u8] {
    mask.as_slice().expect("masks are bytes")
}

/// Returns the primitive of an f32 tensor on the CPU, contiguous; `None` for other tensors and those that autodiff tracks.
pub(crate) fn on_cpu<const D: usize>(tensor: &Tensor<D>) -> Option<FlexTensor> {
    into_on_cpu(tensor.clone()).ok()
}

/// Same as [`on_cpu`], for a tensor that is no longer needed; returns those that are not on the CPU.
#[expect(clippy::result_large_err, reason = "a box would cost an allocation per call")]
pub(crate) fn into_on_cpu<const D: usize>(tensor: Tensor<D>) -> Result<FlexTensor, Tensor<D>> {
    if tensor.dtype() != DType::F32 {
        return Err(tensor);
    }
    into_flex_tensor(tensor).map(contiguous)
}

/// Creates a contiguous tensor from row-major values.
pub(crate) fn tensor(data: Vec<f32>, shape: impl Into<Shape>) -> FlexTensor {
    let layout = burn_flex::Layout::contiguous(shape.into());
    FlexTensor::new(Bytes::from_elems(data), layout, DType::F32)
}

/// Returns the elements of a contiguous f32 tensor, such as those of [`on_cpu`]; operators have rejected every other type.
pub(crate) fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("a contiguous f32 tensor")
}

/// Multiplies `x [..., cols]` with a packed weight whose tensors are contiguous.
pub(crate) fn multiply(
    weight: &PackedPrimitive<Flex>,
    x: &FlexTensor,
    store: Store<'_>,
    spec: Spec,
) -> FlexTensor {
    let y = forward(&checked(weight, spec), floats(x), store, spec);
    let mut shape = x.layout().shape().clone();
    let last = shape.num_dims() - 1;
    shape[last] = spec.shape.rows;
    tensor(y, shape)
}

/// Computes the convolution of `x [batch, channels, height, width]` with a packed kernel whose tensors are contiguous.
pub(crate) fn convolve(
    weight: &PackedPrimitive<Flex>,
    x: &FlexTensor,
    window: &Window,
    store: Store<'_>,
    spec: Spec,
) -> FlexTensor {
    let shape: [usize; 4] = x.layout().shape().dims();
    let y = conv2d(Isa::detect(), &checked(weight, spec), floats(x), shape, window, store);
    let [height, width] = window.output([shape[2], shape[3]]);
    tensor(y, [shape[0], spec.shape.rows, height, width])
}

/// Computes the gradients of [`convolve`], given the gradient `dy` of its output.
pub(crate) fn convolution_gradients(
    weight: &PackedPrimitive<Flex>,
    x: &FlexTensor,
    dy: &FlexTensor,
    window: &Window,
    spec: Spec,
    wants_x: bool,
) -> Conv2dGradients {
    let shape: [usize; 4] = x.layout().shape().dims();
    let weight = checked(weight, spec);
    gradient::conv2d(Isa::detect(), &weight, (floats(x), floats(dy)), shape, window, wants_x)
}

fn forward(weight: &PackedWeight<'_>, x: &[f32], store: Store<'_>, spec: Spec) -> Vec<f32> {
    let (isa, shape) = (Isa::detect(), weight.shape());
    let chosen = || Costs::current().choose(&shape, x.len() / shape.cols, isa).kernel;
    let kernel = spec.kernel.and_then(OnDevice::cpu).unwrap_or_else(chosen);
    run(isa, kernel, weight, x, store)
}

/// Borrows a weight for kernels, and checks it unless `spec` says that it has been checked.
fn checked(weight: &PackedPrimitive<Flex>, spec: Spec) -> PackedWeight<'_> {
    let values = &weight.values;
    let contiguous = "contiguous values of their own type";
    let parts = Parts {
        rows: spec.shape.rows,
        cols: spec.shape.cols,
        layout: spec.shape.layout,
        values: match values.dtype() {
            DType::BF16 => Values::Bf16(values.as_slice().expect(contiguous)),
            DType::F16 => Values::F16(values.as_slice().expect(contiguous)),
            _ => Values::F32(values.as_slice().expect(contiguous)),
        },
        columns: weight.index.as_slice().unwrap_or(&[]),
        in_block: weight.index.as_slice().unwrap_or(&[]),
        offsets: weight.offsets.as_slice().unwrap_or(&[]),
        order: weight.order.as_slice().unwrap_or(&[]),
    };
    let weight = if spec.checked {
        // SAFETY: `checked` is set only for indices that have passed the check: by `Checked`, or after a first call.
        unsafe { parts.check_sizes() }
    } else {
        parts.check()
    };
    match weight {
        Ok(weight) => weight,
        // Panics as Burn's own operators do on tensors that do not fit; files are checked when they are read.
        Err(reason) => panic!("sparse_linear: {reason}"),
    }
}
