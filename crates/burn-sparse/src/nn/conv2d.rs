use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::{Initializer, PaddingConfig2d};
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{
    Activation, Choice, Reason, Window, activate, dense_conv2d, select_conv2d, sparse_conv2d,
};

use super::choices::Call;
use super::dispatch::{KernelInput, dispatched};
use super::inputs::reading_pictures;
use super::packed::PackedParam;

/// Configuration of a [`Conv2d`] layer.
#[derive(Config, Debug)]
pub struct Conv2dConfig {
    /// Number of input and output channels.
    pub channels: [usize; 2],
    /// Size of the kernel.
    pub kernel_size: [usize; 2],
    /// Stride.
    #[config(default = "[1, 1]")]
    pub stride: [usize; 2],
    /// Spacing between elements of the kernel.
    #[config(default = "[1, 1]")]
    pub dilation: [usize; 2],
    /// Number of groups of channels.
    #[config(default = "1")]
    pub groups: usize,
    /// Padding.
    #[config(default = "PaddingConfig2d::Valid")]
    pub padding: PaddingConfig2d,
    /// `true` to add a bias.
    #[config(default = true)]
    pub bias: bool,
    /// Initializer of the parameters.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0),fan_out_only:false}")]
    pub initializer: Initializer,
}

impl Conv2dConfig {
    /// Initializes a [`Conv2d`] layer.
    ///
    /// # Panics
    /// Panics if the groups do not divide the channels, as burn-nn's layer does.
    pub fn init(&self, device: &Device) -> Conv2d {
        burn::nn::conv::Conv2dConfig {
            channels: self.channels,
            kernel_size: self.kernel_size,
            stride: self.stride,
            dilation: self.dilation,
            groups: self.groups,
            padding: self.padding.clone(),
            bias: self.bias,
            initializer: self.initializer.clone(),
        }
        .init(device)
        .into()
    }
}

/// 2D convolution: burn-nn's `Conv2d`, which runs a sparse kernel if its weight is
/// [packed](super::PackedParam) as a matrix `[out, kernel row · kernel column · in]` whose tokens are the output pixels.
/// Records are interchangeable. Convolutions with several groups run dense.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::{Activation, PaddingConfig2d, conv::Conv2dConfig};
///
/// let device = Device::flex();
/// let conv = Conv2dConfig::new([3, 8], [3, 3])
///     .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
///     .init(&device);
/// let y = conv.forward_activated(Tensor::ones([2, 3, 6, 6], &device), Activation::Relu);
/// assert_eq!(y.dims(), [2, 8, 6, 6]);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Conv2d {
    /// Weight, `[out, in / groups, kernel rows, kernel columns]`, or packed.
    pub weight: Param<Tensor<4>>,
    /// Bias, `[out]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// Stride.
    pub stride: [usize; 2],
    /// Size of the kernel.
    pub kernel_size: [usize; 2],
    /// Spacing between elements of the kernel.
    pub dilation: [usize; 2],
    /// Number of groups of channels.
    pub groups: usize,
    /// Padding.
    #[module(skip)]
    pub padding: PaddingConfig2d,
}

impl Conv2d {
    /// Applies the layer.
    ///
    /// # Shapes
    /// - input: `[batch, in, height, width]`
    /// - output: `[batch, out, height', width']`
    ///
    /// # Panics
    /// Panics if the input has other channels, or is smaller than the kernel.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.forward_activated(input, Activation::None)
    }

    /// Applies the layer and an activation, which sparse kernels fuse.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_activated(&self, input: Tensor<4>, activation: Activation) -> Tensor<4> {
        let shape @ [batch, _, height, width] = input.dims();
        let window = self.window([height, width]);
        if self.groups == 1 && !reading_pictures(self.weight.id, &input, window) {
            let [height, width] = window.output([height, width]);
            let [channels, _] = self.channels();
            return Tensor::zeros(
                [batch, channels, height, width],
                (&input.device(), input.dtype()),
            );
        }
        let bias = self.bias.as_ref().map(Param::val);
        if let Some(packed) = self.weight.reparameterization::<PackedParam>() {
            let kernel_input = KernelInput::Pictures { shape, window };
            let call = Call::new(kernel_input.tokens(), &input);
            let choice = packed.choice_by(call, |call| match self.groups {
                1 => {
                    let weight = packed.tensors(&self.weight);
                    select_conv2d(&weight, call.tokens, call.dtype, &call.device)
                }
                _ => {
                    let reason = "no sparse kernel supports convolutions with several groups";
                    Choice::Dense { reason: Reason::Unsupported(reason) }
                }
            });
            dispatched(self.weight.id, &choice, kernel_input);
            match choice {
                Choice::Sparse { name, .. } => {
                    let weight = packed.tensors(&self.weight);
                    return sparse_conv2d(input, &weight, bias, activation, &window, name);
                }
                Choice::Dense { reason: Reason::Slower(_) } => {
                    let weight = packed.dense(&self.weight);
                    return activate(self.dense(input, weight, bias, &window), activation);
                }
                Choice::Dense { .. } => {}
            }
        }
        activate(self.dense(input, self.weight.val(), bias, &window), activation)
    }

    fn dense(
        &self,
        input: Tensor<4>,
        weight: Tensor<4>,
        bias: Option<Tensor<1>>,
        window: &Window,
    ) -> Tensor<4> {
        if self.groups == 1
            && let Some(y) = dense_conv2d(&input, &weight, bias.as_ref(), window)
        {
            return y;
        }
        let Window { stride, padding, dilation, .. } = *window;
        let options = ConvOptions::new_with_padding(stride, padding, dilation, self.groups);
        conv2d(input, weight, bias, options)
    }

    /// Returns the numbers of output and of input channels of a group, packed or not.
    fn channels(&self) -> [usize; 2] {
        match self.weight.reparameterization::<PackedParam>() {
            Some(packed) => {
                let taps = self.kernel_size[0] * self.kernel_size[1];
                [packed.view().rows(), packed.view().cols() / taps.max(1)]
            }
            None => {
                let [out, channels, _, _] = self.weight.lazy_shape().dims();
                [out, channels]
            }
        }
    }

    /// Returns the geometry for an image of this height and width.
    fn window(&self, input: [usize; 2]) -> Window {
        let (kernel, stride, dilation) = (self.kernel_size, self.stride, self.dilation);
        let padding = match self.padding {
            PaddingConfig2d::Valid => [(0, 0); 2],
            PaddingConfig2d::Explicit(top, left, bottom, right) => [(top, bottom), (left, right)],
            // As burn-nn: pads to one output per stride; an odd pixel of padding comes last.
            PaddingConfig2d::Same => [0, 1].map(|axis| {
                let outputs = input[axis].div_ceil(stride[axis]);
                let reach = outputs.saturating_sub(1) * stride[axis] + kernel[axis];
                let missing = reach.saturating_sub(input[axis]);
                (missing / 2, missing - missing / 2)
            }),
        };
        Window { kernel, stride, dilation, padding }
    }
}

impl From<burn::nn::conv::Conv2d> for Conv2d {
    fn from(layer: burn::nn::conv::Conv2d) -> Self {
        let burn::nn::conv::Conv2d { weight, bias, stride, kernel_size, dilation, groups, padding } =
            layer;
        Self { weight, bias, stride, kernel_size, dilation, groups, padding }
    }
}

impl ModuleDisplay for Conv2d {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [out, channels] = self.channels();
        content
            .add("ch_in", &(channels * self.groups))
            .add("ch_out", &out)
            .add("stride", &format!("{:?}", self.stride))
            .add("kernel_size", &format!("{:?}", self.kernel_size))
            .add("dilation", &format!("{:?}", self.dilation))
            .add("groups", &self.groups)
            .add_debug_attribute("padding", &self.padding)
            .optional()
    }
}
