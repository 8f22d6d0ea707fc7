use burn::backend::Flex;
use burn::tensor::Tensor;
use burn_flex::FlexTensor;
use burn_sparse_cpu::Store;

use super::images::training;
use super::unfold::unfold;
use crate::inference::inference;
use crate::linear::{Dispatch, run};
use crate::ops::convolve;
use crate::packed::PackedPrimitive;
use crate::{Activation, KernelName, PackedTensors, Window, activate};

/// Computes a 2D convolution with a packed weight, `[out, kernel row · kernel column · in]` with the input channel
/// varying fastest, using the kernel that [`select_conv2d`](crate::select_conv2d) chose.
///
/// On the CPU, windows are read directly from the images, also for gradients; without autodiff, biases and activations are
/// applied in registers. On other devices, windows are unfolded to tokens first.
///
/// # Shapes
/// - `x`: `[batch, in, height, width]`
/// - `bias`: `[out]`
/// - output: `[batch, out, height', width']`, see [`Window::output`]
///
/// # Panics
/// Panics if shapes or types do not fit, as Burn's own operators do.
pub fn sparse_conv2d(
    x: Tensor<4>,
    weight: &PackedTensors,
    bias: Option<Tensor<1>>,
    activation: Activation,
    window: &Window,
    name: KernelName,
) -> Tensor<4> {
    let [batch, channels, height, width] = x.dims();
    let cols = channels * window.kernel[0] * window.kernel[1];
    assert_eq!(weight.cols, cols, "sparse_conv2d: columns of the packed weight");
    let bias_dims = bias.as_ref().map(Tensor::dims);
    assert!(
        bias_dims.is_none_or(|dims| dims == [weight.rows]),
        "sparse_conv2d: bias {bias_dims:?}"
    );
    let [rows, columns] = window.output_of("sparse_conv2d", [height, width]);
    let images = |packed: &PackedPrimitive<Flex>, x: &FlexTensor, store: Store<'_>, spec| {
        convolve(packed, x, window, store, spec)
    };
    let x = match inference(x, weight, bias.as_ref(), activation, None, images) {
        Ok(y) => return y,
        Err(x) => x,
    };
    if let Some(y) = training(&x, weight, bias.as_ref(), window) {
        return activate(y, activation);
    }
    let tokens = unfold(x, window).reshape([batch * rows * columns, cols]);
    let y = run(tokens, weight, bias, activation, Dispatch::by(name.on_device));
    y.reshape([batch, rows, columns, weight.rows]).permute([0, 3, 1, 2])
}
