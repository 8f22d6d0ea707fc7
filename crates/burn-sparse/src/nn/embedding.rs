use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay, Param};
use burn::nn::Initializer;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn_sparse_kernels::Activation;

use super::quantized::{QuantizedParam, multiplied, runs_quantized};

/// Configuration of an [`Embedding`].
#[derive(Config, Debug)]
pub struct EmbeddingConfig {
    /// Number of tokens.
    pub n_embedding: usize,
    /// Size of the features.
    pub d_model: usize,
    /// Initializer of the weight.
    #[config(default = "Initializer::Normal{mean:0.0, std:1.0}")]
    pub initializer: Initializer,
}

impl EmbeddingConfig {
    /// Initializes an [`Embedding`].
    pub fn init(&self, device: &Device) -> Embedding {
        let weight = self.initializer.init([self.n_embedding, self.d_model], device);
        Embedding { weight }
    }
}

/// Embedding of tokens: burn-nn's `Embedding`, which reads single rows if its weight is [quantized](QuantizedParam), and can
/// also be the head of a language model. Records are interchangeable.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct Embedding {
    /// Weight, `[n_embedding, d_model]`, or quantized.
    pub weight: Param<Tensor<2>>,
}

impl Embedding {
    /// Returns the features of tokens.
    ///
    /// # Shapes
    /// - `tokens`: `[batch, positions]`
    /// - output: `[batch, positions, d_model]`
    ///
    /// # Panics
    /// Panics if a token is negative or not below `n_embedding`.
    pub fn forward(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let Some(quantized) = self.weight.reparameterization::<QuantizedParam>() else {
            return burn::tensor::module::embedding(self.weight.val(), tokens);
        };
        let ([batch, positions], weight) = (tokens.dims(), quantized.weight());
        let (device, d_model) = (tokens.device(), weight.cols());
        let mut features = Vec::with_capacity(batch * positions * d_model);
        for token in tokens.into_data().iter::<i64>() {
            // A negative token becomes one that no embedding has.
            weight.dense_row(usize::try_from(token).unwrap_or(usize::MAX), &mut features);
        }
        Tensor::from_data(TensorData::new(features, [batch, positions, d_model]), &device)
    }

    /// Computes the scores of all tokens, as a head that shares the weight does.
    ///
    /// # Shapes
    /// - `features`: `[batch, positions, d_model]`
    /// - output: `[batch, positions, n_embedding]`
    pub fn scores(&self, features: Tensor<3>) -> Tensor<3> {
        let [batch, positions, d_model] = features.dims();
        if let Some(quantized) = self.weight.reparameterization::<QuantizedParam>()
            && runs_quantized(&features, None)
        {
            let id = std::iter::once(self.weight.id);
            return multiplied(features, quantized.weight(), id, None, Activation::None);
        }
        if batch * positions == 0 {
            // In `reshape`, an axis of size 0 stands for the size that it has.
            let [n_embedding, _] = self.weight.lazy_shape().dims();
            return Tensor::zeros([batch, positions, n_embedding], &features.device());
        }
        // The embedding is the left factor: on the right, its transpose would be copied at every token.
        let features = features.reshape([batch * positions, d_model]);
        let scores = self.weight.val().matmul(features.transpose());
        let [n_embedding, _] = scores.dims();
        scores.transpose().reshape([batch, positions, n_embedding])
    }
}

impl ModuleDisplay for Embedding {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        let [n_embedding, d_model] = match self.weight.reparameterization::<QuantizedParam>() {
            Some(quantized) => [quantized.weight().rows(), quantized.weight().cols()],
            None => self.weight.lazy_shape().dims(),
        };
        content.add("n_embedding", &n_embedding).add("d_model", &d_model).optional()
    }
}
