use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::tensor::module::linear;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{Choice, Reason, sparse_linear_with};

use super::Packed;
use super::dispatch::dispatched;
use super::memory::Call;

pub use burn::nn::LinearConfig;
pub use burn_sparse_kernels::Activation;

/// `O = I · W + b`: burn-nn's `Linear`, which runs a sparse kernel when its weight is
/// [packed](Packed).
///
/// Made from the same configuration (`Linear::new(&LinearConfig::new(784, 512), &device)`), saved in
/// the same record.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Linear {
    /// `[d_input, d_output]`, or packed.
    pub weight: Param<Tensor<2>>,
    /// `[d_output]`.
    pub bias: Option<Param<Tensor<1>>>,
}

impl Linear {
    /// Initializes the layer.
    pub fn new(config: &LinearConfig, device: &Device) -> Self {
        let burn::nn::Linear { weight, bias } = config.init(device);
        Self { weight, bias }
    }

    /// Applies the layer.
    ///
    /// # Shapes
    /// - input: `[..., d_input]`
    /// - output: `[..., d_output]`
    ///
    /// # Panics
    /// When the last axis of `input` is not `d_input`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        self.forward_with(input, Activation::None)
    }

    /// Applies the layer and an activation; a sparse kernel applies both while sums are in registers.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_with<const D: usize>(
        &self,
        input: Tensor<D>,
        activation: Activation,
    ) -> Tensor<D> {
        let bias = self.bias.as_ref().map(Param::val);
        if let Some(packed) = self.weight.reparameterization::<Packed>() {
            let base = self.weight.base();
            let tokens = input.shape().num_elements() / packed.view().cols().max(1);
            let call = Call::new(tokens, &input);
            let choice = packed.choice(&base, call);
            dispatched(self.weight.id, &choice);
            match choice {
                Choice::Sparse { name, .. } => {
                    let weight = packed.tensors(base);
                    return sparse_linear_with(input, &weight, bias, activation, name);
                }
                Choice::Dense { reason: Reason::Slower(_) } => {
                    return activation.apply(linear(input, packed.dense(base), bias));
                }
                Choice::Dense { reason: Reason::Unsupported(_) } => {}
            }
        }
        activation.apply(linear(input, self.weight.val(), bias))
    }
}

impl Linear {
    /// `[d_input, d_output]`.
    pub(crate) fn dims(&self) -> [usize; 2] {
        match self.weight.reparameterization::<Packed>() {
            Some(packed) => [packed.view().cols(), packed.view().rows()],
            None => self.weight.lazy_shape().dims(),
        }
    }
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
