use burn::backend::Flex;
use burn::tensor::ops::PadMode;
use burn::tensor::{Tensor, s};
use serde::{Deserialize, Serialize};

use crate::flex::{self, Store};
use crate::functions::{Way, run};
use crate::{Activation, KernelName, PackedTensors};

/// What a convolution looks at: a kernel that moves over a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Rows and columns.
    pub kernel: [usize; 2],
    /// Pixels from one place to the next.
    pub stride: [usize; 2],
    /// Pixels from one place of the kernel to the next.
    pub dilation: [usize; 2],
    /// Zeros before and after the rows, and the columns.
    pub padding: [(usize, usize); 2],
}

impl Window {
    /// Height and width of the output for those of the input; 0 where the kernel does not fit.
    pub fn output(&self, input: [usize; 2]) -> [usize; 2] {
        [0, 1].map(|axis| {
            let (before, after) = self.padding[axis];
            // Sums that do not wrap: a reach that did would seem to fit, and be read by.
            let reach = self.dilation[axis].saturating_mul(self.kernel[axis].saturating_sub(1));
            let padded = before.saturating_add(input[axis]).saturating_add(after);
            let places = padded.saturating_sub(reach);
            places.div_ceil(self.stride[axis])
        })
    }

    /// [`Self::output`] of an operator that has no empty ones.
    ///
    /// # Panics
    /// When the kernel does not fit.
    pub(crate) fn output_of(&self, operator: &str, [height, width]: [usize; 2]) -> [usize; 2] {
        let output = self.output([height, width]);
        assert!(
            !output.contains(&0),
            "{operator}: {self:?} does not fit a picture {height} x {width}"
        );
        output
    }
}

/// A convolution with a packed kernel, `[out, kernel row · kernel column · in]` with the input channel fastest,
/// by the kernel that [`select_conv2d`](crate::select_conv2d) has named.
///
/// On the CPU windows are read from the pictures themselves, and biases and activations are applied in
/// registers; elsewhere, and where a gradient is wanted, windows are laid out as tokens first.
///
/// # Shapes
/// - `x`: `[batch, in, height, width]`
/// - `bias`: `[out]`
/// - output: `[batch, out, height', width']`, as [`Window::output`] says
///
/// # Panics
/// When shapes or types do not fit, as Burn's own operators do.
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
    if let Some(y) = on_cpu(&x, weight, bias.as_ref(), activation, window) {
        return y;
    }
    let tokens = unfold(x, window).reshape([batch * rows * columns, cols]);
    let y = run(tokens, weight, bias, activation, Way::by(name.on_device));
    y.reshape([batch, rows, columns, weight.rows]).permute([0, 3, 1, 2])
}

/// Straight from the pictures, where they lie in the CPU's memory and no gradient is wanted.
fn on_cpu(
    x: &Tensor<4>,
    weight: &PackedTensors,
    bias: Option<&Tensor<1>>,
    activation: Activation,
    window: &Window,
) -> Option<Tensor<4>> {
    if weight.values.is_autodiff() || !flex::reads(weight.values.dtype()) {
        return None;
    }
    let x = flex::on_flex(x)?;
    let values = weight.values.clone().try_into_primitive::<Flex>().ok()?;
    let int =
        |index: &Tensor<1, burn::tensor::Int>| index.clone().try_into_primitive::<Flex>().ok();
    let indices = [int(&weight.index)?, int(&weight.offsets)?, int(&weight.order)?];
    let [index, offsets, order] = indices;
    let tensors = [values, index, offsets, order].map(|tensor| tensor.to_contiguous());
    let bias = match bias {
        Some(bias) => Some(bias.clone().try_into_primitive::<Flex>().ok()?.to_contiguous()),
        None => None,
    };
    let bias = match &bias {
        Some(bias) => Some(bias.as_slice::<f32>()?),
        None => None,
    };
    let checked = weight.checked.holds(weight);
    let spec = crate::Spec { checked, ..weight.spec(activation) };
    let y = flex::convolve(&tensors, &x, window, Store { bias, activation }, spec);
    if !checked {
        weight.checked.remember(weight);
    }
    Some(Tensor::from_primitive::<Flex>(y))
}

/// `[batch, in, height, width]` to `[batch, height', width', kernel row · kernel column · in]`.
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
