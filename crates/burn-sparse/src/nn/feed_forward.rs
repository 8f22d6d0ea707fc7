use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::activation::{Activation as AnyActivation, ActivationConfig};
use burn::nn::{Dropout, Initializer};
use burn::tensor::{Device, Tensor, assert_shape};
use burn_sparse_kernels::Activation;

use super::linear::Linear;

/// Configuration of a [`PositionWiseFeedForward`] layer.
#[derive(Config, Debug)]
pub struct PositionWiseFeedForwardConfig {
    /// Size of the input and output features.
    pub d_model: usize,
    /// Size of the inner features.
    pub d_ff: usize,
    /// Dropout rate.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Initializer of the parameters.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
    /// Activation between the two layers.
    #[config(default = "ActivationConfig::Gelu")]
    pub activation: ActivationConfig,
}

impl PositionWiseFeedForwardConfig {
    /// Initializes a [`PositionWiseFeedForward`] layer.
    pub fn init(&self, device: &Device) -> PositionWiseFeedForward {
        burn::nn::transformer::PositionWiseFeedForwardConfig {
            d_model: self.d_model,
            d_ff: self.d_ff,
            dropout: self.dropout,
            initializer: self.initializer.clone(),
            activation: self.activation.clone(),
        }
        .init(device)
        .into()
    }
}

/// Position-wise feed-forward network: burn-nn's `PositionWiseFeedForward`, whose two layers run sparse kernels if their
/// weights are [packed](super::PackedParam) (Huang et al., 2022, section 6). Records are interchangeable.
///
/// The kernel of the inner layer fuses ReLU and GELU. On GPUs it writes the memory order that the outer layer's kernel reads,
/// so that neither transposes.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::transformer::PositionWiseFeedForwardConfig;
///
/// let device = Device::flex();
/// let block = PositionWiseFeedForwardConfig::new(16, 64).init(&device);
/// assert_eq!(block.forward(Tensor::<3>::ones([2, 5, 16], &device)).dims(), [2, 5, 16]);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct PositionWiseFeedForward {
    /// Inner layer, `d_model` to `d_ff` features.
    pub linear_inner: Linear,
    /// Outer layer, `d_ff` to `d_model` features.
    pub linear_outer: Linear,
    /// Dropout of the inner features.
    pub dropout: Dropout,
    /// Activation between the two layers.
    #[module(skip)]
    pub activation: AnyActivation,
}

impl PositionWiseFeedForward {
    /// Applies the network.
    ///
    /// # Shapes
    /// - `input` and the output: `[..., d_model]`
    ///
    /// # Panics
    /// Panics if the last axis of `input` is not `d_model`.
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
        if shape.num_elements() == 0 {
            // In `reshape`, an axis of size 0 stands for the size that it has.
            return Tensor::zeros(shape, &input.device());
        }
        // One axis of tokens, which may be the contiguous one between the layers.
        let x = input.reshape([shape.num_elements() / d_model, d_model]);
        let x = self.linear_inner.forward_into(&self.linear_outer, x, activation);
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
