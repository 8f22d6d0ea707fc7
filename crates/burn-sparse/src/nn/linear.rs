use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::tensor::module::linear;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::{
    Choice, KernelName, PackedTensors, Reason, sparse_linear_features_major, sparse_linear_with,
};

use super::Packed;
use super::dispatch::{Input, dispatched};
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
        self.run(input, activation, sparse_linear_with)
    }

    /// [`Self::forward_with`] for an output that only `next` reads: a sparse kernel leaves it as that one's takes it.
    pub(crate) fn forward_to(
        &self,
        next: &Self,
        input: Tensor<2>,
        activation: Activation,
    ) -> Tensor<2> {
        match next.choice(&input) {
            Some(Choice::Sparse { name, .. }) if name.is_features_major() => {
                self.run(input, activation, sparse_linear_features_major)
            }
            _ => self.forward_with(input, activation),
        }
    }

    /// With `sparse`, where a sparse kernel runs.
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
        let bias = self.bias.as_ref().map(Param::val);
        if let Some(packed) = self.weight.reparameterization::<Packed>()
            && let Some(choice) = self.choice(&input)
        {
            let base = self.weight.base();
            let tokens = input.shape().num_elements() / packed.view().cols().max(1);
            dispatched(self.weight.id, &choice, Input::Tokens(tokens));
            match choice {
                Choice::Sparse { name, .. } => {
                    return sparse(input, &packed.tensors(base), bias, activation, name);
                }
                Choice::Dense { reason: Reason::Slower(_) } => {
                    return activation.apply(linear(input, packed.dense(base), bias));
                }
                Choice::Dense { reason: Reason::Unsupported(_) } => {}
            }
        }
        activation.apply(linear(input, self.weight.val(), bias))
    }

    /// What runs for as many tokens as `input` has, of whatever features; `None` where the weight is not packed.
    fn choice<const D: usize>(&self, input: &Tensor<D>) -> Option<Choice> {
        let packed = self.weight.reparameterization::<Packed>()?;
        let shape = input.shape();
        let tokens = shape.num_elements() / shape[D - 1].max(1);
        Some(packed.choice(&self.weight.base(), Call::new(tokens, input)))
    }

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
