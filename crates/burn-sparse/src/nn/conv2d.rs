use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::PaddingConfig2d;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{
    Activation, Choice, Reason, Window, dense_conv2d, select_conv2d, sparse_conv2d,
};

use super::Packed;
use super::dispatch::{Input, dispatched};
use super::memory::Call;

pub use burn::nn::conv::Conv2dConfig;

/// burn-nn's `Conv2d`, which runs a sparse kernel when its weight is [packed](Packed): a matrix product with
/// `[out, kernel row · kernel column · in]` whose tokens are the output pixels.
///
/// Made from the same configuration, saved in the same record. Convolutions in groups stay dense.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Conv2d {
    /// `[out, in / groups, kernel rows, kernel columns]`, or packed.
    pub weight: Param<Tensor<4>>,
    /// `[out]`.
    pub bias: Option<Param<Tensor<1>>>,
    /// Pixels from one place to the next.
    pub stride: [usize; 2],
    /// Rows and columns of the kernel.
    pub kernel_size: [usize; 2],
    /// Pixels from one place of the kernel to the next.
    pub dilation: [usize; 2],
    /// Parts that channels are cut into, each seen by its own outputs alone.
    pub groups: usize,
    /// Zeros around the picture.
    #[module(skip)]
    pub padding: PaddingConfig2d,
}

impl Conv2d {
    /// Initializes the layer.
    pub fn new(config: &Conv2dConfig, device: &Device) -> Self {
        config.init(device).into()
    }

    /// Applies the layer.
    ///
    /// # Shapes
    /// - input: `[batch, in, height, width]`
    /// - output: `[batch, out, height', width']`
    ///
    /// # Panics
    /// When the input has other channels, or is smaller than the kernel.
    pub fn forward(&self, input: Tensor<4>) -> Tensor<4> {
        self.forward_with(input, Activation::None)
    }

    /// Applies the layer and an activation; a sparse kernel applies both while sums are in registers.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_with(&self, input: Tensor<4>, activation: Activation) -> Tensor<4> {
        let shape @ [.., height, width] = input.dims();
        let window = self.window([height, width]);
        let bias = self.bias.as_ref().map(Param::val);
        if let Some(packed) = self.weight.reparameterization::<Packed>() {
            let base = self.weight.base();
            let seen = Input::Pictures { shape, window };
            let call = Call::new(seen.tokens(), &input);
            let choice = packed.choice_by(call, |call| match self.groups {
                1 => {
                    let weight = packed.tensors(base.clone());
                    select_conv2d(&weight, call.tokens, call.dtype, &call.device)
                }
                _ => {
                    let reason = "no sparse kernel is built for convolutions in groups";
                    Choice::Dense { reason: Reason::Unsupported(reason) }
                }
            });
            dispatched(self.weight.id, &choice, seen);
            match choice {
                Choice::Sparse { name, .. } => {
                    let weight = packed.tensors(base);
                    return sparse_conv2d(input, &weight, bias, activation, &window, name);
                }
                Choice::Dense { reason: Reason::Slower(_) } => {
                    let weight = packed.dense(base);
                    return activation.apply(self.dense(input, weight, bias, &window));
                }
                Choice::Dense { reason: Reason::Unsupported(_) } => {}
            }
        }
        activation.apply(self.dense(input, self.weight.val(), bias, &window))
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

    /// What the kernel sees of a picture of this height and width.
    fn window(&self, input: [usize; 2]) -> Window {
        let (kernel, stride, dilation) = (self.kernel_size, self.stride, self.dilation);
        let padding = match self.padding {
            PaddingConfig2d::Valid => [(0, 0); 2],
            PaddingConfig2d::Explicit(top, left, bottom, right) => [(top, bottom), (left, right)],
            // As burn-nn: what is missing to one output for every stride, the odd one after the last pixel.
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
        let [out, channels] = match self.weight.reparameterization::<Packed>() {
            Some(packed) => {
                let taps = self.kernel_size[0] * self.kernel_size[1];
                [packed.view().rows(), packed.view().cols() / taps.max(1)]
            }
            None => {
                let [out, channels, _, _] = self.weight.lazy_shape().dims();
                [out, channels]
            }
        };
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
