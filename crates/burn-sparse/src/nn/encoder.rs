use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::activation::ActivationConfig;
use burn::nn::{Dropout, Initializer, LayerNorm};
use burn::tensor::{Bool, Device, Tensor};

use super::cache::TensorCache;
use super::feed_forward::PositionWiseFeedForward;
use super::mha::{MhaInput, MultiHeadAttention};
use super::mha_cache::MhaCache;
use super::residual::residual;

/// Configuration of a [`TransformerEncoder`].
#[derive(Config, Debug)]
pub struct TransformerEncoderConfig {
    /// Size of the features.
    pub d_model: usize,
    /// Size of the inner features of the feed-forward networks.
    pub d_ff: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Dropout rate.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// `true` to normalize before every block instead of after it.
    #[config(default = false)]
    pub norm_first: bool,
    /// `true` to use the quiet softmax, which lets a head attend to nothing.
    #[config(default = false)]
    pub quiet_softmax: bool,
    /// Initializer of the parameters.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
    /// Activation of the feed-forward networks.
    #[config(default = "ActivationConfig::Gelu")]
    pub activation: ActivationConfig,
    /// Epsilon of the layer normalization.
    #[config(default = 1e-5)]
    pub layer_norm_eps: f64,
}

impl TransformerEncoderConfig {
    /// Initializes a [`TransformerEncoder`].
    pub fn init(&self, device: &Device) -> TransformerEncoder {
        self.burn().init(device).into()
    }

    fn burn(&self) -> burn::nn::transformer::TransformerEncoderConfig {
        burn::nn::transformer::TransformerEncoderConfig {
            d_model: self.d_model,
            d_ff: self.d_ff,
            n_heads: self.n_heads,
            n_layers: self.n_layers,
            dropout: self.dropout,
            norm_first: self.norm_first,
            quiet_softmax: self.quiet_softmax,
            initializer: self.initializer.clone(),
            activation: self.activation.clone(),
            layer_norm_eps: self.layer_norm_eps,
        }
    }
}

/// Transformer encoder (Vaswani et al., 2017): burn-nn's `TransformerEncoder`, whose layers run sparse kernels on packed weights.
/// Records are interchangeable.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
///
/// let device = Device::flex();
/// let encoder = TransformerEncoderConfig::new(16, 32, 2, 1).init(&device);
/// let y = encoder.forward(TransformerEncoderInput::new(Tensor::ones([2, 5, 16], &device)));
/// assert_eq!(y.dims(), [2, 5, 16]);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct TransformerEncoder {
    /// Layers.
    pub layers: Vec<TransformerEncoderLayer>,
    /// Size of the features.
    pub d_model: usize,
    /// Size of the inner features of the feed-forward networks.
    pub d_ff: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Dropout rate.
    pub dropout: f64,
    /// `true` if normalization precedes every block instead of following it.
    pub norm_first: bool,
    /// `true` if the quiet softmax is used.
    pub quiet_softmax: bool,
}

impl From<burn::nn::transformer::TransformerEncoder> for TransformerEncoder {
    fn from(from: burn::nn::transformer::TransformerEncoder) -> Self {
        Self {
            layers: from.layers.into_iter().map(Into::into).collect(),
            d_model: from.d_model,
            d_ff: from.d_ff,
            n_heads: from.n_heads,
            n_layers: from.n_layers,
            dropout: from.dropout,
            norm_first: from.norm_first,
            quiet_softmax: from.quiet_softmax,
        }
    }
}

impl ModuleDisplay for TransformerEncoder {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        content
            .add("d_model", &self.d_model)
            .add("d_ff", &self.d_ff)
            .add("n_heads", &self.n_heads)
            .add("n_layers", &self.n_layers)
            .add("dropout", &self.dropout)
            .add("norm_first", &self.norm_first)
            .add("quiet_softmax", &self.quiet_softmax)
            .optional()
    }
}

/// Input of [`TransformerEncoder::forward`].
#[derive(Debug, Clone)]
pub struct TransformerEncoderInput {
    tensor: Tensor<3>,
    mask_pad: Option<Tensor<2, Bool>>,
    mask_attn: Option<Tensor<3, Bool>>,
}

impl TransformerEncoderInput {
    /// Creates an input without masks.
    ///
    /// # Shapes
    /// - `tensor`: `[batch, positions, d_model]`
    pub fn new(tensor: Tensor<3>) -> Self {
        Self { tensor, mask_pad: None, mask_attn: None }
    }

    /// Masks padding: `true` for positions that must not be attended to, `[batch, positions]`.
    #[must_use]
    pub fn mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.mask_pad = Some(mask_pad);
        self
    }

    /// Masks pairs of positions: `true` where the first must not attend to the second, `[batch or 1, positions, positions]`.
    #[must_use]
    pub fn mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.mask_attn = Some(mask_attn);
        self
    }
}

impl TransformerEncoder {
    /// Applies all layers.
    ///
    /// # Shapes
    /// - output: `[batch, positions, d_model]`
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward(&self, input: TransformerEncoderInput) -> Tensor<3> {
        let TransformerEncoderInput { tensor, mask_pad, mask_attn } = input;
        self.layers
            .iter()
            .fold(tensor, |x, layer| layer.forward(x, mask_pad.clone(), mask_attn.clone()))
    }

    /// Applies all layers to a growing sequence, and computes only the new last position.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerEncoderInput,
        cache: &mut TransformerEncoderAutoregressiveCache,
    ) -> Tensor<3> {
        let TransformerEncoderInput { tensor, mask_pad, mask_attn } = input;
        assert_eq!(cache.layers.len(), self.layers.len(), "the cache is of another model");
        self.layers.iter().zip(&mut cache.layers).fold(tensor, |x, (layer, cache)| {
            let (pad, attn) = (mask_pad.clone(), mask_attn.clone());
            layer.forward_autoregressive_inference(x, pad, attn, cache)
        })
    }

    /// Creates an empty cache for [`Self::forward_autoregressive_inference`].
    pub fn new_autoregressive_cache(&self) -> TransformerEncoderAutoregressiveCache {
        let empty = |_: &_| TransformerEncoderLayerAutoregressiveCache::empty();
        TransformerEncoderAutoregressiveCache { layers: self.layers.iter().map(empty).collect() }
    }
}

/// Layer of a [`TransformerEncoder`].
#[derive(Module, Debug)]
pub struct TransformerEncoderLayer {
    /// Self-attention.
    pub mha: MultiHeadAttention,
    /// Feed-forward network.
    pub pwff: PositionWiseFeedForward,
    /// Normalization before the feed-forward network, or after the attention.
    pub norm_1: LayerNorm,
    /// Normalization before the attention, or after the feed-forward network.
    pub norm_2: LayerNorm,
    /// Dropout of both blocks.
    pub dropout: Dropout,
    /// `true` if normalization precedes every block instead of following it.
    pub norm_first: bool,
}

impl TransformerEncoderLayer {
    /// Initializes a layer.
    pub fn new(config: &TransformerEncoderConfig, device: &Device) -> Self {
        burn::nn::transformer::TransformerEncoderLayer::new(&config.burn(), device).into()
    }

    /// Applies the layer.
    ///
    /// # Shapes
    /// - `input` and the output: `[batch, positions, d_model]`
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward(
        &self,
        input: Tensor<3>,
        mask_pad: Option<Tensor<2, Bool>>,
        mask_attn: Option<Tensor<3, Bool>>,
    ) -> Tensor<3> {
        let (first, dropout) = (self.norm_first, &self.dropout);
        let (attention_norm, feed_forward_norm) = match first {
            true => (&self.norm_2, &self.norm_1),
            false => (&self.norm_1, &self.norm_2),
        };
        let attention =
            |x| self.mha.forward_context(MhaInput::self_attn(x).masked(mask_pad, mask_attn));
        let x = residual(input, first, dropout, |x| attention_norm.forward(x), attention);
        residual(x, first, dropout, |x| feed_forward_norm.forward(x), |x| self.pwff.forward(x))
    }

    /// Applies the layer to a growing sequence, and computes only the new last position.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_autoregressive_inference(
        &self,
        input: Tensor<3>,
        mask_pad: Option<Tensor<2, Bool>>,
        mask_attn: Option<Tensor<3, Bool>>,
        cache: &mut TransformerEncoderLayerAutoregressiveCache,
    ) -> Tensor<3> {
        let TransformerEncoderLayerAutoregressiveCache { mha, pwff, norm_1, norm_2 } = cache;
        let (first, dropout) = (self.norm_first, &self.dropout);
        let norms = [(&self.norm_1, norm_1), (&self.norm_2, norm_2)];
        let [one, two] = norms
            .map(|(norm, cache)| move |x| cache.forward_autoregressive(x, 1, |x| norm.forward(x)));
        let [attention_norm, feed_forward_norm] = if first { [two, one] } else { [one, two] };
        let attention = |x| {
            let input = MhaInput::self_attn(x).masked(mask_pad, mask_attn);
            self.mha.forward_cache(input, mha).context
        };
        let feed_forward = |x| pwff.forward_autoregressive(x, 1, |x| self.pwff.forward(x));
        let x = residual(input, first, dropout, attention_norm, attention);
        residual(x, first, dropout, feed_forward_norm, feed_forward)
    }
}

impl From<burn::nn::transformer::TransformerEncoderLayer> for TransformerEncoderLayer {
    fn from(layer: burn::nn::transformer::TransformerEncoderLayer) -> Self {
        Self {
            mha: layer.mha.into(),
            pwff: layer.pwff.into(),
            norm_1: layer.norm_1,
            norm_2: layer.norm_2,
            dropout: layer.dropout,
            norm_first: layer.norm_first,
        }
    }
}

/// Cache of a [`TransformerEncoderLayer`] for autoregressive inference.
#[derive(Debug)]
pub struct TransformerEncoderLayerAutoregressiveCache {
    mha: MhaCache,
    pwff: TensorCache<3>,
    norm_1: TensorCache<3>,
    norm_2: TensorCache<3>,
}

impl TransformerEncoderLayerAutoregressiveCache {
    /// Creates an empty cache.
    pub fn empty() -> Self {
        Self {
            mha: MhaCache::autoregressive(),
            pwff: TensorCache::empty(),
            norm_1: TensorCache::empty(),
            norm_2: TensorCache::empty(),
        }
    }
}

/// Cache of a [`TransformerEncoder`] for autoregressive inference.
#[derive(Debug)]
pub struct TransformerEncoderAutoregressiveCache {
    layers: Vec<TransformerEncoderLayerAutoregressiveCache>,
}
