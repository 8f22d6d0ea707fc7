use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Int, Tensor};

use crate::flex;
use crate::kernel_name::OnDevice;
use crate::{Activation, KernelName, PackedTensors, SparseOps, Spec};

/// `y = activation(x · Wᵀ + bias)` with a packed `W [rows, cols]`, on any backend that implements
/// [`SparseOps`]. It runs the fastest sparse kernel there is; whether a dense product would be faster,
/// [`select`](crate::select()) says.
///
/// # Shapes
/// - `x`: `[..., cols]`
/// - `bias`: `[rows]`
/// - output: `[..., rows]`
///
/// # Panics
/// When shapes or types do not fit, or no kernel runs, as Burn's own operators do.
pub fn sparse_linear<const D: usize>(
    x: Tensor<D>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
) -> Tensor<D> {
    run(x, weight, bias, activation, Way::default())
}

/// [`sparse_linear`] with the kernel that [`select`](crate::select()) has named for this weight, number of
/// tokens and device.
///
/// # Shapes
/// As [`sparse_linear`].
///
/// # Panics
/// As [`sparse_linear`], and when the kernel is one of another weight or number of tokens.
pub fn sparse_linear_with<const D: usize>(
    x: Tensor<D>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
    name: KernelName,
) -> Tensor<D> {
    run(x, weight, bias, activation, Way::by(name.on_device))
}

/// [`sparse_linear_with`] for an output that only another packed layer reads: it lies feature after feature in
/// memory where the kernel [writes it so](KernelName::is_features_major), and a kernel that takes it so does not
/// transpose it. As a tensor it is the same, of the same shape.
///
/// # Shapes
/// - `x`: `[tokens, cols]`
/// - output: `[tokens, rows]`
///
/// # Panics
/// As [`sparse_linear_with`].
pub fn sparse_linear_features_major(
    x: Tensor<2>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
    name: KernelName,
) -> Tensor<2> {
    run(x, weight, bias, activation, Way { features_major: true, ..Way::by(name.on_device) })
}

/// How a product is to be made, where it is not left to the backend.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Way {
    pub(crate) kernel: Option<OnDevice>,
    /// Whether the output may lie feature after feature in memory.
    pub(crate) features_major: bool,
}

impl Way {
    pub(crate) fn by(kernel: OnDevice) -> Self {
        Self { kernel: Some(kernel), features_major: false }
    }
}

/// [`sparse_linear`] in some way.
pub(crate) fn run<const D: usize>(
    x: Tensor<D>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
    way: Way,
) -> Tensor<D> {
    let mut shape = x.shape();
    let spec = weight.spec(activation);
    assert_eq!(
        shape[D - 1],
        spec.cols,
        "sparse_linear: x {shape:?} has {} features, the packed weight has {} columns",
        shape[D - 1],
        spec.cols,
    );
    let (dtype, device) = (x.dtype(), x.device());
    let on_cpu = device.clone().inner() == Device::flex();
    if on_cpu {
        let values = weight.values.dtype();
        assert!(
            dtype == DType::F32 && flex::reads(values),
            "sparse_linear: {dtype:?} inputs on the CPU with {values:?} weights; it takes F32 inputs with F32, \
             BF16 or F16 weights"
        );
    } else {
        assert_eq!(dtype, weight.values.dtype(), "sparse_linear: types of x and the packed weight");
    }
    let tokens = shape.num_elements() / spec.cols;
    if let Some(bias) = &bias {
        assert_eq!(bias.dims(), [spec.rows], "sparse_linear: bias of {} outputs", spec.rows);
    }
    shape[D - 1] = spec.rows;
    if tokens == 0 && D != 2 {
        // To Burn's `reshape` a 0 is the axis as it was.
        return Tensor::zeros(shape, (&device, dtype));
    }
    // A fused activation has no gradient of its own: with autodiff it stays an operation of its own.
    let fuse = !x.is_autodiff()
        && !weight.values.is_autodiff()
        && bias.as_ref().is_none_or(|bias| !bias.is_autodiff());
    let fused = if fuse { spec } else { weight.spec(Activation::None) };
    let checked = on_cpu && weight.checked.holds(weight);
    let bias = bias.unwrap_or_else(|| Tensor::zeros([0], (&device, dtype)));
    let y = <Dispatch as SparseOps>::sparse_linear(
        x.reshape([tokens, spec.cols]).into_dispatch(),
        weight.values.clone().into_dispatch(),
        bias.into_dispatch(),
        weight.index.clone().into_dispatch(),
        weight.offsets.clone().into_dispatch(),
        weight.order.clone().into_dispatch(),
        Spec { kernel: way.kernel, features_major: way.features_major && fuse, checked, ..fused },
    );
    if on_cpu && !checked {
        weight.checked.remember(weight);
    }
    let y = Tensor::<2>::from_dispatch(y).reshape(shape);
    if fuse { y } else { activation.apply(y) }
}

/// `weight · mask` for a flat byte mask in the order of the stored weight; the gradient passes straight
/// through to `weight`.
///
/// # Panics
/// When the mask has another number of elements, or its type is not `u8`.
pub fn masked<const D: usize>(weight: Tensor<D>, mask: Tensor<1, Int>) -> Tensor<D> {
    check_mask(&weight, &mask);
    let masked = <Dispatch as SparseOps>::masked(weight.into_dispatch(), mask.into_dispatch());
    Tensor::from_dispatch(masked)
}

/// `grad + factor · weight` where the flat byte mask drops the weight, `grad` elsewhere: what draws dropped
/// weights to zero. Not for tensors that are tracked for a gradient.
///
/// # Panics
/// When shapes differ, the mask has another number of elements, or its type is not `u8`.
pub fn drawn<const D: usize>(
    grad: Tensor<D>,
    weight: Tensor<D>,
    mask: Tensor<1, Int>,
    factor: f32,
) -> Tensor<D> {
    assert_eq!(grad.dims(), weight.dims(), "drawn: a gradient of the weight's shape");
    check_mask(&grad, &mask);
    check_mask(&weight, &mask);
    assert!(!grad.is_autodiff() && !weight.is_autodiff(), "drawn: tensors without autodiff");
    let [grad, weight] = [grad, weight].map(Tensor::into_dispatch);
    let drawn = <Dispatch as SparseOps>::drawn(grad, weight, mask.into_dispatch(), factor);
    Tensor::from_dispatch(drawn)
}

fn check_mask<const D: usize>(weight: &Tensor<D>, mask: &Tensor<1, Int>) {
    let elements = weight.shape().num_elements();
    assert_eq!(mask.dims(), [elements], "masked: one byte for each of {elements} weights");
    assert_eq!(mask.dtype(), DType::U8, "masked: masks are bytes");
    if weight.device().inner() == Device::flex() {
        assert_eq!(weight.dtype(), DType::F32, "masked: weights on the CPU are f32");
    }
}
