use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::Dropout;
use burn::nn::activation::Activation as AnyActivation;
use burn::tensor::{Device, Tensor, assert_shape};

use super::{Activation, Linear};

pub use burn::nn::transformer::PositionWiseFeedForwardConfig;

/// burn-nn's `PositionWiseFeedForward`, two layers with an activation between them, each of which runs a sparse kernel
/// when its weight is [packed](super::Packed) (Shfl-BW's own case: Huang et al., 2022, section 6).
///
/// The inner layer's kernel applies ReLU and GELU itself, and on GPUs leaves its output feature after feature in memory
/// where the outer one's takes it so: neither transposes what only the other reads.
///
/// Made from the same configuration, saved in the same record.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct PositionWiseFeedForward {
    /// From `d_model` features to `d_ff`.
    pub linear_inner: Linear,
    /// And back.
    pub linear_outer: Linear,
    /// Applied to what is between them, in training.
    pub dropout: Dropout,
    /// Applied between them.
    #[module(skip)]
    pub activation: AnyActivation,
}

impl PositionWiseFeedForward {
    /// Initializes the layers.
    pub fn new(config: &PositionWiseFeedForwardConfig, device: &Device) -> Self {
        config.init(device).into()
    }

    /// Applies both layers.
    ///
    /// # Shapes
    /// - input: `[..., d_model]`, as is the output
    ///
    /// # Panics
    /// When the last axis of `input` is not `d_model`.
    pub fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let [d_model, _] = self.linear_inner.dims();
        assert_shape!(input, [.., d_model]);
        let fused = match &self.activation {
            AnyActivation::Relu(_) => Some(Activation::Relu),
            AnyActivation::Gelu(gelu) if !gelu.approximate => Some(Activation::Gelu),
            _ => None,
        };
        let Some(activation) = fused else {
            let x = self.activation.forward(self.linear_inner.forward(input));
            return self.linear_outer.forward(self.dropout.forward(x));
        };
        let shape = input.shape();
        // Tokens in one axis: it may be the contiguous one between the layers.
        let x = input.reshape([shape.num_elements() / d_model, d_model]);
        let x = self.linear_inner.forward_to(&self.linear_outer, x, activation);
        self.linear_outer.forward(self.dropout.forward(x)).reshape(shape)
    }
}

impl From<burn::nn::transformer::PositionWiseFeedForward> for PositionWiseFeedForward {
    fn from(layer: burn::nn::transformer::PositionWiseFeedForward) -> Self {
        Self {
            linear_inner: layer.linear_inner.into(),
            linear_outer: layer.linear_outer.into(),
            dropout: layer.dropout,
            activation: layer.activation,
        }
    }
}

impl ModuleDisplay for PositionWiseFeedForward {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [d_model, d_ff] = self.linear_inner.dims();
        content
            .add("d_model", &d_model)
            .add("d_ff", &d_ff)
            .add("prob", &self.dropout.prob)
            .optional()
    }
}
