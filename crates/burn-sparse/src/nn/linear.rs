use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::{Initializer, LinearLayout};
use burn::tensor::module::linear;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{
    Activation, Choice, KernelName, PackedTensors, Reason, activate, dense_linear,
    sparse_linear_features_major, sparse_linear_with,
};

use super::choices::Call;
use super::dispatch::{KernelInput, dispatched};
use super::inputs::{not_needed, reading};
use super::packed::PackedParam;
use super::quantized::{QuantizedParam, multiplied, runs_quantized};

/// Configuration of a [`Linear`] layer.
#[derive(Config, Debug)]
pub struct LinearConfig {
    /// Size of the input features.
    pub d_input: usize,
    /// Size of the output features.
    pub d_output: usize,
    /// `true` to add a bias.
    #[config(default = true)]
    pub bias: bool,
    /// Initializer of the parameters.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
    /// Memory layout of the dense weight.
    #[config(default = "LinearLayout::Row")]
    pub layout: LinearLayout,
}

impl LinearConfig {
    /// Initializes a [`Linear`] layer.
    pub fn init(&self, device: &Device) -> Linear {
        let Self { d_input, d_output, bias, ref initializer, layout } = *self;
        let layer = burn::nn::LinearConfig {
            d_input,
            d_output,
            bias,
            initializer: initializer.clone(),
            layout,
        }
        .init(device);
        if matches!(layout, LinearLayout::Col) {
            // Until it is initialized, a parameter reports the shape in which Burn stores it, which is the transposed one here.
            layer.weight.val();
        }
        layer.into()
    }
}

/// Linear layer, `O = I · W + b`: burn-nn's `Linear`, which runs a sparse kernel if its weight is
/// [packed](PackedParam), and one in 8 or 4 bits if it is [quantized](QuantizedParam). Records are interchangeable.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::LinearConfig;
///
/// let device = Device::flex();
/// let layer = LinearConfig::new(4, 3).init(&device);
/// let y = layer.forward(Tensor::<2>::ones([2, 4], &device));
/// assert_eq!(y.dims(), [2, 3]);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Linear {
    /// Weight, `[d_input, d_output]`, or packed or quantized.
    pub weight: Param<Tensor<2>>,
    /// Bias, `[d_output]`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// Applies the layer.
    ///
    /// # Shapes
    /// - input: `[..., d_input]`
    /// - output: `[..., d_output]`
    ///
    /// # Panics
    /// Panics if the last axis of `input` is not `d_input`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        self.forward_activated(input, Activation::None)
    }

    /// Applies the layer and an activation, which sparse kernels fuse.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_activated<const D: usize>(
        &self,
        input: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        self.run(input, activation, sparse_linear_with)
    }

    /// As [`Self::forward_activated`], for an output that only `next` reads: a sparse kernel writes the memory order that the
    /// kernel of `next` reads.
    pub(super) fn forward_into(
        &self,
        next: &Self,
        input: Tensor<2>,
        activation: Activation,
    ) -> Tensor<2> {
        match next.choice(&input) {
            Some(Choice::Sparse { name, .. }) if name.is_features_major() => {
                self.run(input, activation, sparse_linear_features_major)
            }
            _ => self.forward_activated(input, activation),
        }
    }

    /// Applies the layer, using `sparse` if a sparse kernel is chosen.
    fn run<const D: usize>(
        &self,
        input: Tensor<D>,
        activation: Activation,
        sparse: fn(
            Tensor<D>,
            &PackedTensors,
            Option<Tensor<1>>,
            Activation,
            KernelName,
        ) -> Tensor<D>,
    ) -> Tensor<D> {
        if !reading(std::iter::once(self.weight.id), &input) {
            return not_needed(&input, self.dims()[1]);
        }
        let bias = self.bias.as_ref().map(Param::val);
        if let Some(quantized) = self.weight.reparameterization::<QuantizedParam>()
            && runs_quantized(&input, bias.as_ref())
        {
            let id = std::iter::once(self.weight.id);
            return multiplied(input, quantized.weight(), id, bias, activation);
        }
        if let Some(packed) = self.weight.reparameterization::<PackedParam>() {
            let tokens = tokens(&input);
            let choice = packed.choice(&self.weight, Call::new(tokens, &input));
            dispatched(self.weight.id, &choice, KernelInput::Tokens(tokens));
            match choice {
                Choice::Sparse { name, .. } => {
                    let weight = packed.tensors(&self.weight);
                    return sparse(input, &weight, bias, activation, name);
                }
                Choice::Dense { reason: Reason::Slower(_) } => {
                    let y = dense_linear(input, packed.dense(&self.weight), bias);
                    return activate(y, activation);
                }
                Choice::Dense { .. } => {}
            }
        }
        activate(linear(input, self.weight.val(), bias), activation)
    }

    /// Returns the kernel for the number of tokens in `input`, whatever their size; `None` if the weight is not packed.
    fn choice<const D: usize>(&self, input: &Tensor<D>) -> Option<Choice> {
        let packed = self.weight.reparameterization::<PackedParam>()?;
        Some(packed.choice(&self.weight, Call::new(tokens(input), input)))
    }

    /// Returns `[d_input, d_output]`.
    pub(super) fn dims(&self) -> [usize; 2] {
        if let Some(quantized) = self.weight.reparameterization::<QuantizedParam>() {
            return [quantized.weight().cols(), quantized.weight().rows()];
        }
        match self.weight.reparameterization::<PackedParam>() {
            Some(packed) => [packed.view().cols(), packed.view().rows()],
            None => self.weight.lazy_shape().dims(),
        }
    }
}

/// Returns the number of tokens of an input `[..., features]`.
fn tokens<const D: usize>(input: &Tensor<D>) -> usize {
    input.dims()[..D - 1].iter().product()
}

impl From<burn::nn::Linear> for Linear {
    fn from(layer: burn::nn::Linear) -> Self {
        Self { weight: layer.weight, bias: layer.bias }
    }
}

impl ModuleDisplay for Linear {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_input, d_output] = self.dims();
        content
            .add("d_input", &d_input)
            .add("d_output", &d_output)
            .add("bias", &self.bias.is_some())
            .optional()
    }
}
