use burn::config::Config;
use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::activation::silu;
use burn::tensor::{Device, Tensor};
use burn_sparse_kernels::swiglu;

use super::fused::Fusion;
use super::linear::{Linear, LinearConfig};

/// Configuration of a [`GatedFeedForward`] network.
#[derive(Config, Debug)]
pub struct GatedFeedForwardConfig {
    /// Size of the input and output features.
    pub d_model: usize,
    /// Size of the inner features.
    pub d_ff: usize,
    /// Initializer of the parameters.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
}

impl GatedFeedForwardConfig {
    /// Initializes a [`GatedFeedForward`] network.
    pub fn init(&self, device: &Device) -> GatedFeedForward {
        let linear = |inputs, outputs| {
            let config = LinearConfig::new(inputs, outputs).with_bias(false);
            config.with_initializer(self.initializer.clone()).init(device)
        };
        GatedFeedForward {
            gate: linear(self.d_model, self.d_ff),
            up: linear(self.d_model, self.d_ff),
            down: linear(self.d_ff, self.d_model),
            gate_up: Fusion::default(),
        }
    }
}

/// Feed-forward network with a SwiGLU, `down(silu(gate(x)) ⊙ up(x))` (Shazeer, 2020), as in Llama. The gate and the inner layer
/// run as one packed matrix if their weights are [packed](super::PackedParam) alike.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::transformer::GatedFeedForwardConfig;
///
/// let device = Device::flex();
/// let block = GatedFeedForwardConfig::new(16, 48).init(&device);
/// assert_eq!(block.forward(Tensor::<3>::ones([2, 5, 16], &device)).dims(), [2, 5, 16]);
/// ```
#[derive(Module, Debug)]
pub struct GatedFeedForward {
    /// Gate, `d_model` to `d_ff` features.
    pub gate: Linear,
    /// Inner layer, `d_model` to `d_ff` features.
    pub up: Linear,
    /// Outer layer, `d_ff` to `d_model` features.
    pub down: Linear,
    #[module(skip)]
    gate_up: Fusion,
}

impl GatedFeedForward {
    /// Applies the network.
    ///
    /// # Shapes
    /// - `x` and the output: `[..., d_model]`
    ///
    /// # Panics
    /// Panics if the last axis of `x` is not `d_model`.
    pub fn forward<const D: usize>(&self, x: Tensor<D>) -> Tensor<D> {
        let both = self.gate_up.of([&self.gate, &self.up].into_iter()).forward(x);
        let gated = swiglu(&both).unwrap_or_else(|| {
            let d_ff = both.dims()[D - 1] / 2;
            let gate = silu(both.clone().narrow(D - 1, 0, d_ff));
            gate * both.narrow(D - 1, d_ff, d_ff)
        });
        self.down.forward(gated)
    }
}
