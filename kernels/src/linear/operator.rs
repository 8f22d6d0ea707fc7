use burn::backend::Dispatch as AnyBackend;
use burn::tensor::{DType, Device, Tensor};

use super::dispatch::Dispatch;
use crate::activation::activate;
use crate::inference::inference;
use crate::ops::{SparseOps, multiply};
use crate::packed::{PackedPrimitive, Spec, reads};
use crate::{Activation, KernelName, PackedTensors};

/// Computes `y = activation(x · Wᵀ + bias)` with a packed `W [rows, cols]`, on any backend that implements [`SparseOps`], with
/// the fastest sparse kernel. [`select`](crate::select()) tells whether a dense product would be faster.
///
/// # Shapes
/// - `x`: `[..., cols]`
/// - `bias`: `[rows]`
/// - output: `[..., rows]`
///
/// # Panics
/// Panics if shapes or types do not fit, or there is no kernel, as Burn's own operators do.
pub fn sparse_linear<const D: usize>(
    x: Tensor<D>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
) -> Tensor<D> {
    run(x, weight, bias, activation, Dispatch::default())
}

/// Same as [`sparse_linear`], with the kernel that [`select`](crate::select()) chose for this weight, number of
/// tokens, and device.
///
/// # Shapes
/// Same as [`sparse_linear`].
///
/// # Panics
/// Same as [`sparse_linear`], and if the kernel does not support this weight or number of tokens.
pub fn sparse_linear_with<const D: usize>(
    x: Tensor<D>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
    name: KernelName,
) -> Tensor<D> {
    run(x, weight, bias, activation, Dispatch::by(name.on_device))
}

/// Same as [`sparse_linear_with`], for an output that only another packed layer reads. The output is feature-major in
/// memory if the kernel [writes it that way](KernelName::is_features_major), and a kernel that reads it that way need
/// not transpose it. Its shape and elements are the same.
///
/// # Shapes
/// - `x`: `[tokens, cols]`
/// - output: `[tokens, rows]`
///
/// # Panics
/// Same as [`sparse_linear_with`].
pub fn sparse_linear_features_major(
    x: Tensor<2>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
    name: KernelName,
) -> Tensor<2> {
    run(
        x,
        weight,
        bias,
        activation,
        Dispatch { features_major: true, ..Dispatch::by(name.on_device) },
    )
}

/// Runs [`sparse_linear`] with these options.
pub(crate) fn run<const D: usize>(
    x: Tensor<D>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
    dispatch: Dispatch,
) -> Tensor<D> {
    let mut shape = x.shape();
    assert_eq!(
        shape[D - 1],
        weight.cols,
        "sparse_linear: x {shape:?} has {} features, the packed weight has {} columns",
        shape[D - 1],
        weight.cols,
    );
    if let Some(bias) = &bias {
        assert_eq!(bias.dims(), [weight.rows], "sparse_linear: bias of {} outputs", weight.rows);
    }
    let x = match inference(x, weight, bias.as_ref(), activation, dispatch.kernel, multiply) {
        Ok(y) => return y,
        Err(x) => x,
    };
    let (dtype, device) = (x.dtype(), x.device());
    let on_cpu = device.clone().inner() == Device::flex();
    if on_cpu {
        let values = weight.values.dtype();
        assert!(
            dtype == DType::F32 && reads(values),
            "sparse_linear: {dtype:?} inputs on the CPU with {values:?} weights; it takes F32 inputs with F32, \
             BF16 or F16 weights"
        );
    } else {
        assert_eq!(dtype, weight.values.dtype(), "sparse_linear: types of x and the packed weight");
    }
    if let Some(bias) = &bias {
        assert_eq!(bias.dtype(), dtype, "sparse_linear: types of the bias and x");
    }
    let tokens = shape.num_elements() / weight.cols;
    shape[D - 1] = weight.rows;
    if tokens == 0 && D != 2 {
        // Burn's `reshape` interprets 0 as "unchanged".
        return Tensor::zeros(shape, (&device, dtype));
    }
    // A fused activation has no gradient: with autodiff it is a separate operation.
    let fuse = !x.is_autodiff()
        && !weight.values.is_autodiff()
        && bias.as_ref().is_none_or(|bias| !bias.is_autodiff());
    let checked = on_cpu && weight.is_checked();
    let spec = Spec {
        kernel: dispatch.kernel,
        features_major: dispatch.features_major && fuse,
        checked,
        ..weight.spec(if fuse { activation } else { Activation::None })
    };
    let bias = bias.unwrap_or_else(|| Tensor::zeros([0], (&device, dtype)));
    let y = <AnyBackend as SparseOps>::sparse_linear(
        x.reshape([tokens, weight.cols]).into_dispatch(),
        bias.into_dispatch(),
        PackedPrimitive {
            values: weight.values.clone().into_dispatch(),
            index: weight.index.clone().into_dispatch(),
            offsets: weight.offsets.clone().into_dispatch(),
            order: weight.order.clone().into_dispatch(),
        },
        spec,
    );
    if on_cpu && !checked {
        weight.set_checked();
    }
    let y = Tensor::<2>::from_dispatch(y).reshape(shape);
    if fuse { y } else { activate(y, activation) }
}
