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

/// Configuration of a [`TransformerDecoder`].
#[derive(Config, Debug)]
pub struct TransformerDecoderConfig {
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

impl TransformerDecoderConfig {
    /// Initializes a [`TransformerDecoder`].
    pub fn init(&self, device: &Device) -> TransformerDecoder {
        self.burn().init(device).into()
    }

    fn burn(&self) -> burn::nn::transformer::TransformerDecoderConfig {
        burn::nn::transformer::TransformerDecoderConfig {
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

/// Transformer decoder (Vaswani et al., 2017): burn-nn's `TransformerDecoder`, whose layers run sparse kernels on packed weights.
/// Records are interchangeable.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::transformer::{TransformerDecoderConfig, TransformerDecoderInput};
///
/// let device = Device::flex();
/// let decoder = TransformerDecoderConfig::new(16, 32, 2, 1).init(&device);
/// let (target, memory) = (Tensor::ones([2, 5, 16], &device), Tensor::ones([2, 7, 16], &device));
/// let y = decoder.forward(TransformerDecoderInput::new(target, memory));
/// assert_eq!(y.dims(), [2, 5, 16]);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct TransformerDecoder {
    /// Layers.
    pub layers: Vec<TransformerDecoderLayer>,
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

impl From<burn::nn::transformer::TransformerDecoder> for TransformerDecoder {
    fn from(from: burn::nn::transformer::TransformerDecoder) -> Self {
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

impl ModuleDisplay for TransformerDecoder {
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

/// Input of [`TransformerDecoder::forward`].
#[derive(Debug, Clone)]
pub struct TransformerDecoderInput {
    target: Tensor<3>,
    target_mask_pad: Option<Tensor<2, Bool>>,
    target_mask_attn: Option<Tensor<3, Bool>>,
    memory: Tensor<3>,
    memory_mask_pad: Option<Tensor<2, Bool>>,
    memory_mask_attn: Option<Tensor<3, Bool>>,
}

impl TransformerDecoderInput {
    /// Creates an input without masks.
    ///
    /// # Shapes
    /// - `target`: `[batch, positions, d_model]`
    /// - `memory`: `[batch, memory positions, d_model]`
    pub fn new(target: Tensor<3>, memory: Tensor<3>) -> Self {
        Self {
            target,
            target_mask_pad: None,
            target_mask_attn: None,
            memory,
            memory_mask_pad: None,
            memory_mask_attn: None,
        }
    }

    /// Masks padding of the memory: `true` for positions that must not be attended to, `[batch, memory positions]`.
    #[must_use]
    pub fn memory_mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.memory_mask_pad = Some(mask_pad);
        self
    }

    /// Masks pairs of target and memory positions: `true` where the first must not attend to the second,
    /// `[batch or 1, positions, memory positions]`.
    #[must_use]
    pub fn memory_mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.memory_mask_attn = Some(mask_attn);
        self
    }

    /// Masks padding of the target: `true` for positions that must not be attended to, `[batch, positions]`.
    #[must_use]
    pub fn target_mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.target_mask_pad = Some(mask_pad);
        self
    }

    /// Masks pairs of target positions: `true` where the first must not attend to the second,
    /// `[batch or 1, positions, positions]`.
    #[must_use]
    pub fn target_mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.target_mask_attn = Some(mask_attn);
        self
    }

    fn self_attention(&self, x: Tensor<3>) -> MhaInput {
        MhaInput::self_attn(x).masked(self.target_mask_pad.clone(), self.target_mask_attn.clone())
    }

    fn cross_attention(&self, x: Tensor<3>) -> MhaInput {
        let input = MhaInput::new(x, self.memory.clone(), self.memory.clone());
        input.masked(self.memory_mask_pad.clone(), self.memory_mask_attn.clone())
    }
}

impl TransformerDecoder {
    /// Applies all layers.
    ///
    /// # Shapes
    /// - output: `[batch, positions, d_model]`
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward(&self, input: TransformerDecoderInput) -> Tensor<3> {
        self.layers.iter().fold(input, |input, layer| layer.forward(input)).target
    }

    /// Applies all layers to a growing target, and computes only the new last position.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_autoregressive_inference(
        &self,
        input: TransformerDecoderInput,
        cache: &mut TransformerDecoderAutoregressiveCache,
    ) -> Tensor<3> {
        assert_eq!(cache.layers.len(), self.layers.len(), "the cache is of another model");
        let layers = self.layers.iter().zip(&mut cache.layers);
        layers
            .fold(input, |input, (layer, cache)| {
                layer.forward_autoregressive_inference(input, cache)
            })
            .target
    }

    /// Creates an empty cache for [`Self::forward_autoregressive_inference`].
    pub fn new_autoregressive_cache(&self) -> TransformerDecoderAutoregressiveCache {
        let empty = |_: &_| TransformerDecoderLayerAutoregressiveCache::empty();
        TransformerDecoderAutoregressiveCache { layers: self.layers.iter().map(empty).collect() }
    }
}

/// Layer of a [`TransformerDecoder`].
#[derive(Module, Debug)]
pub struct TransformerDecoderLayer {
    /// Cross-attention.
    pub cross_attn: MultiHeadAttention,
    /// Self-attention.
    pub self_attn: MultiHeadAttention,
    /// Feed-forward network.
    pub pwff: PositionWiseFeedForward,
    /// Normalization before the cross-attention, or after the self-attention.
    pub norm_1: LayerNorm,
    /// Normalization before the feed-forward network, or after the cross-attention.
    pub norm_2: LayerNorm,
    /// Normalization before the self-attention, or after the feed-forward network.
    pub norm_3: LayerNorm,
    /// Dropout of all blocks.
    pub dropout: Dropout,
    /// `true` if normalization precedes every block instead of following it.
    pub norm_first: bool,
}

impl TransformerDecoderLayer {
    /// Initializes a layer.
    pub fn new(config: &TransformerDecoderConfig, device: &Device) -> Self {
        burn::nn::transformer::TransformerDecoderLayer::new(&config.burn(), device).into()
    }

    /// Applies the layer, and returns the input of the next one.
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward(&self, mut input: TransformerDecoderInput) -> TransformerDecoderInput {
        let (first, dropout) = (self.norm_first, &self.dropout);
        let [self_norm, cross_norm, feed_forward_norm] = match first {
            true => [&self.norm_3, &self.norm_1, &self.norm_2],
            false => [&self.norm_1, &self.norm_2, &self.norm_3],
        };
        let self_attention = |x| self.self_attn.forward(input.self_attention(x)).context;
        let cross_attention = |x| self.cross_attn.forward(input.cross_attention(x)).context;
        let x = input.target.clone();
        let x = residual(x, first, dropout, |x| self_norm.forward(x), self_attention);
        let x = residual(x, first, dropout, |x| cross_norm.forward(x), cross_attention);
        let feed_forward = |x| self.pwff.forward(x);
        input.target = residual(x, first, dropout, |x| feed_forward_norm.forward(x), feed_forward);
        input
    }

    /// Applies the layer to a growing target, and computes only the new last position.
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_autoregressive_inference(
        &self,
        mut input: TransformerDecoderInput,
        cache: &mut TransformerDecoderLayerAutoregressiveCache,
    ) -> TransformerDecoderInput {
        let (first, dropout) = (self.norm_first, &self.dropout);
        let TransformerDecoderLayerAutoregressiveCache {
            cross_attn,
            self_attn,
            pwff,
            norm_1,
            norm_2,
            norm_3,
        } = cache;
        let norms = [(&self.norm_1, norm_1), (&self.norm_2, norm_2), (&self.norm_3, norm_3)];
        let [one, two, three] = norms
            .map(|(norm, cache)| move |x| cache.forward_autoregressive(x, 1, |x| norm.forward(x)));
        let [self_norm, cross_norm, feed_forward_norm] =
            if first { [three, one, two] } else { [one, two, three] };
        let self_attention =
            |x| self.self_attn.forward_cache(input.self_attention(x), self_attn).context;
        let cross_attention =
            |x| self.cross_attn.forward_cache(input.cross_attention(x), cross_attn).context;
        let feed_forward = |x| pwff.forward_autoregressive(x, 1, |x| self.pwff.forward(x));
        let x = input.target.clone();
        let x = residual(x, first, dropout, self_norm, self_attention);
        let x = residual(x, first, dropout, cross_norm, cross_attention);
        input.target = residual(x, first, dropout, feed_forward_norm, feed_forward);
        input
    }
}

impl From<burn::nn::transformer::TransformerDecoderLayer> for TransformerDecoderLayer {
    fn from(layer: burn::nn::transformer::TransformerDecoderLayer) -> Self {
        Self {
            cross_attn: layer.cross_attn.into(),
            self_attn: layer.self_attn.into(),
            pwff: layer.pwff.into(),
            norm_1: layer.norm_1,
            norm_2: layer.norm_2,
            norm_3: layer.norm_3,
            dropout: layer.dropout,
            norm_first: layer.norm_first,
        }
    }
}

/// Cache of a [`TransformerDecoderLayer`] for autoregressive inference.
#[derive(Debug)]
pub struct TransformerDecoderLayerAutoregressiveCache {
    cross_attn: MhaCache,
    self_attn: MhaCache,
    pwff: TensorCache<3>,
    norm_1: TensorCache<3>,
    norm_2: TensorCache<3>,
    norm_3: TensorCache<3>,
}

impl TransformerDecoderLayerAutoregressiveCache {
    /// Creates an empty cache.
    pub fn empty() -> Self {
        Self {
            cross_attn: MhaCache::autoregressive_cross_attention(),
            self_attn: MhaCache::autoregressive(),
            pwff: TensorCache::empty(),
            norm_1: TensorCache::empty(),
            norm_2: TensorCache::empty(),
            norm_3: TensorCache::empty(),
        }
    }
}

/// Cache of a [`TransformerDecoder`] for autoregressive inference.
#[derive(Debug)]
pub struct TransformerDecoderAutoregressiveCache {
    layers: Vec<TransformerDecoderLayerAutoregressiveCache>,
}
