use burn::backend::Flex;
use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::tensor::{Bytes, DType, Element, Shape, Tensor};
use burn_flex::FlexTensor;
use bytemuck::Pod;
use half::{bf16, f16};

use super::conv2d::conv2d;
use super::simd::Isa;
use super::training::{gradient, masked};
use super::{Store, Value, Weight, choose, run};
use crate::kernel_name::OnDevice;
use crate::{SparseOps, Spec, Window};

impl SparseOps for Flex {
    fn sparse_linear(
        x: FloatTensor<Self>,
        values: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let tensors = [values, index, offsets, order].map(|tensor| tensor.to_contiguous());
        let (x, bias) = (x.to_contiguous(), bias.to_contiguous());
        let (x, bias) = (floats(&x), floats(&bias));
        let bias = (!bias.is_empty()).then_some(bias);
        let store = Store { bias, activation: spec.activation };
        let y = match tensors[0].dtype() {
            DType::BF16 => forward::<bf16>(&tensors, x, store, spec),
            DType::F16 => forward::<f16>(&tensors, x, store, spec),
            _ => forward::<f32>(&tensors, x, store, spec),
        };
        tensor(y, [x.len() / spec.cols, spec.rows])
    }

    fn sparse_linear_dx(
        dy: FloatTensor<Self>,
        values: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        let tensors = [values, index, offsets, order].map(|tensor| tensor.to_contiguous());
        let dy = dy.to_contiguous();
        let dy = floats(&dy);
        let n = dy.len() / spec.rows;
        let mut dx = vec![0.0; n * spec.cols];
        let isa = Isa::detect();
        match tensors[0].dtype() {
            DType::BF16 => gradient::dx(isa, &weight::<bf16>(&tensors, spec), dy, &mut dx),
            DType::F16 => gradient::dx(isa, &weight::<f16>(&tensors, spec), dy, &mut dx),
            _ => gradient::dx(isa, &weight::<f32>(&tensors, spec), dy, &mut dx),
        }
        tensor(dx, [n, spec.cols])
    }

    fn sparse_linear_dw(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self> {
        // Only the shape of the values matters here.
        let shape = spec.layout.values_shape(index.layout().num_elements());
        let values = tensor(vec![0.0; shape[0] * shape[1]], shape);
        let tensors = [values, index, offsets, order].map(|tensor| tensor.to_contiguous());
        let (x, dy) = (x.to_contiguous(), dy.to_contiguous());
        let dw =
            gradient::dw(Isa::detect(), &weight::<f32>(&tensors, spec), floats(&x), floats(&dy));
        tensor(dw, shape)
    }

    fn masked(weight: FloatTensor<Self>, mask: IntTensor<Self>) -> FloatTensor<Self> {
        let (mut weight, mask) = (contiguous(weight), contiguous(mask));
        let isa = Isa::detect();
        if let Some(weight_mut) = whole(&mut weight) {
            masked::mask(isa, weight_mut, bytes(&mask));
            return weight;
        }
        let shape = weight.layout().shape().clone();
        let out = masked::masked(isa, floats(&weight), bytes(&mask));
        FlexTensor::new(Bytes::from_elems(out), burn_flex::Layout::contiguous(shape), DType::F32)
    }

    fn drawn(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: IntTensor<Self>,
        factor: f32,
    ) -> FloatTensor<Self> {
        let (mut grad, weight, mask) = (contiguous(grad), contiguous(weight), contiguous(mask));
        if whole(&mut grad).is_none() {
            let shape = grad.layout().shape().clone();
            let layout = burn_flex::Layout::contiguous(shape);
            grad = FlexTensor::new(Bytes::from_elems(floats(&grad).to_vec()), layout, DType::F32);
        }
        if let Some(grad) = whole(&mut grad) {
            masked::draw(Isa::detect(), grad, floats(&weight), bytes(&mask), factor);
        }
        grad
    }
}

/// The tensor itself where it is contiguous: a clone would share its memory, which then could not be
/// written to.
fn contiguous(tensor: FlexTensor) -> FlexTensor {
    if tensor.is_contiguous() { tensor } else { tensor.to_contiguous() }
}

/// All of a contiguous tensor's memory to write into, where nobody else reads it.
fn whole(tensor: &mut FlexTensor) -> Option<&mut [f32]> {
    let elements = tensor.layout().num_elements();
    let storage = tensor.try_storage_mut::<f32>()?;
    (storage.len() == elements).then_some(storage)
}

fn bytes(mask: &FlexTensor) -> &[u8] {
    mask.as_slice().expect("masks are bytes")
}

/// A tensor of f32 in the CPU's memory, in row order, that no gradient is wanted of.
pub(crate) fn on_flex<const D: usize>(tensor: &Tensor<D>) -> Option<FlexTensor> {
    if tensor.is_autodiff() || tensor.dtype() != DType::F32 {
        return None;
    }
    Some(tensor.clone().try_into_primitive::<Flex>().ok()?.to_contiguous())
}

/// Values in row order as a tensor.
pub(crate) fn tensor<const D: usize>(data: Vec<f32>, shape: [usize; D]) -> FlexTensor {
    let layout = burn_flex::Layout::contiguous(Shape::new(shape));
    FlexTensor::new(Bytes::from_elems(data), layout, DType::F32)
}

/// `functions` has refused every other type before dispatch.
fn floats(tensor: &FlexTensor) -> &[f32] {
    tensor.as_slice().expect("a contiguous f32 tensor")
}

/// The weight of these tensors and the convolution of `x [batch, channels, height, width]` with it.
pub(crate) fn convolve(
    tensors: &[FlexTensor; 4],
    x: &FlexTensor,
    window: &Window,
    store: Store<'_>,
    spec: Spec,
) -> FlexTensor {
    let shape: [usize; 4] = x.layout().shape().dims();
    let (isa, x) = (Isa::detect(), floats(x));
    let y = match tensors[0].dtype() {
        DType::BF16 => conv2d(isa, &weight::<bf16>(tensors, spec), x, shape, window, store),
        DType::F16 => conv2d(isa, &weight::<f16>(tensors, spec), x, shape, window, store),
        _ => conv2d(isa, &weight::<f32>(tensors, spec), x, shape, window, store),
    };
    let [height, width] = window.output([shape[2], shape[3]]);
    tensor(y, [shape[0], spec.rows, height, width])
}

fn forward<V: Value + Element + Pod>(
    tensors: &[FlexTensor; 4],
    x: &[f32],
    store: Store<'_>,
    spec: Spec,
) -> Vec<f32> {
    let (isa, weight) = (Isa::detect(), weight::<V>(tensors, spec));
    let chosen = || choose(&weight.matrix(), x.len() / weight.cols, isa).kernel;
    let kernel = spec.kernel.and_then(OnDevice::flex).unwrap_or_else(chosen);
    run(isa, kernel, &weight, x, store)
}

fn weight<V: Element + Pod>(tensors: &[FlexTensor; 4], spec: Spec) -> Weight<'_, V> {
    let [values, index, offsets, order] = tensors;
    let weight = Weight {
        rows: spec.rows,
        cols: spec.cols,
        layout: spec.layout,
        values: values.as_slice().expect("contiguous values of the type they say"),
        columns: index.as_slice().unwrap_or(&[]),
        in_block: index.as_slice().unwrap_or(&[]),
        offsets: offsets.as_slice().unwrap_or(&[]),
        order: order.as_slice().unwrap_or(&[]),
    };
    match weight.check(spec.checked) {
        Ok(weight) => weight,
        // As Burn's own operators do on tensors that do not fit; files are checked when they are read.
        Err(reason) => panic!("sparse_linear: {reason}"),
    }
}
