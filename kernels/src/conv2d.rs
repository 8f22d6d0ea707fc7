use burn::backend::Flex;
use burn::tensor::ops::PadMode;
use burn::tensor::{Int, Tensor, s};
use burn_sparse_cpu::Store;

use crate::linear::{Dispatch, run};
use crate::ops::{convolve, on_cpu, reads};
use crate::packed::{PackedPrimitive, Spec};
use crate::{Activation, KernelName, PackedTensors, Window};

/// Computes a 2D convolution with a packed weight, `[out, kernel row · kernel column · in]` with the input channel
/// fastest, by the kernel that [`select_conv2d`](crate::select_conv2d) chose.
///
/// On the CPU, windows are read from the images themselves, and biases and activations are applied in registers. On other
/// devices and with autodiff, windows are unfolded to tokens first.
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
    if let Some(y) = from_images(&x, weight, bias.as_ref(), activation, window) {
        return y;
    }
    let tokens = unfold(x, window).reshape([batch * rows * columns, cols]);
    let y = run(tokens, weight, bias, activation, Dispatch::by(name.on_device));
    y.reshape([batch, rows, columns, weight.rows]).permute([0, 3, 1, 2])
}

/// Reads windows from the images themselves, on the CPU and without autodiff; returns `None` otherwise.
fn from_images(
    x: &Tensor<4>,
    weight: &PackedTensors,
    bias: Option<&Tensor<1>>,
    activation: Activation,
    window: &Window,
) -> Option<Tensor<4>> {
    if weight.values.is_autodiff() || !reads(weight.values.dtype()) {
        return None;
    }
    let x = on_cpu(x)?;
    let int = |index: &Tensor<1, Int>| index.clone().try_into_primitive::<Flex>().ok();
    let primitive = PackedPrimitive {
        values: weight.values.clone().try_into_primitive::<Flex>().ok()?,
        index: int(&weight.index)?,
        offsets: int(&weight.offsets)?,
        order: int(&weight.order)?,
    };
    let bias = match bias {
        Some(bias) => Some(bias.clone().try_into_primitive::<Flex>().ok()?.to_contiguous()),
        None => None,
    };
    let bias = match &bias {
        Some(bias) => Some(bias.as_slice::<f32>()?),
        None => None,
    };
    let checked = weight.is_checked();
    let spec = Spec { checked, ..weight.spec(activation) };
    let y = convolve(primitive, &x, window, Store { bias, activation }, spec);
    if !checked {
        weight.set_checked();
    }
    Some(Tensor::from_primitive::<Flex>(y))
}

/// Unfolds `[batch, in, height, width]` to `[batch, height', width', kernel row · kernel column · in]`.
fn unfold(x: Tensor<4>, window: &Window) -> Tensor<4> {
    let Window { kernel, stride, dilation, padding } = *window;
    let [_, _, height, width] = x.dims();
    let [rows, columns] = window.output([height, width]);
    let x = match padding {
        [(0, 0), (0, 0)] => x,
        _ => x.pad(padding, PadMode::Constant(0.0)),
    };
    let x = x.permute([0, 2, 3, 1]);
    let taps = (0..kernel[0]).flat_map(|row| (0..kernel[1]).map(move |column| [row, column]));
    let taps = taps.map(|[row, column]| {
        let (top, left) = (row * dilation[0], column * dilation[1]);
        let (bottom, right) =
            (top + (rows - 1) * stride[0] + 1, left + (columns - 1) * stride[1] + 1);
        let (down, across) = (stride[0] as isize, stride[1] as isize);
        x.clone().slice(s![.., top..bottom;down, left..right;across, ..])
    });
    Tensor::cat(taps.collect(), 3)
}
