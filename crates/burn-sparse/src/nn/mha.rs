use burn::config::Config;
use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::{Dropout, Initializer};
use burn::tensor::activation::{quiet_softmax, softmax};
use burn::tensor::{Bool, Device, Tensor, assert_shape};
use burn_sparse_kernels::{Unseen, attention};

use super::fused::Fusion;
use super::key_value_cache::KeyValueCache;
use super::linear::Linear;
use super::mha_cache::MhaCache;

/// Configuration of a [`MultiHeadAttention`] layer.
#[derive(Config, Debug)]
pub struct MultiHeadAttentionConfig {
    /// Size of the features.
    pub d_model: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Dropout rate.
    #[config(default = 0.1)]
    pub dropout: f64,
    /// Score of masked positions.
    #[config(default = -1.0e4)]
    pub min_float: f64,
    /// `true` to use the quiet softmax, which lets a head attend to nothing.
    #[config(default = false)]
    pub quiet_softmax: bool,
    /// Initializer of the parameters.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
    /// `true` to add a bias to the key projection.
    #[config(default = true)]
    pub key_bias: bool,
    /// `true` to add a bias to the value projection.
    #[config(default = true)]
    pub value_bias: bool,
    /// `true` to add a bias to the query projection.
    #[config(default = true)]
    pub query_bias: bool,
    /// `true` to add a bias to the output projection.
    #[config(default = true)]
    pub output_bias: bool,
}

impl MultiHeadAttentionConfig {
    /// Initializes a [`MultiHeadAttention`] layer.
    pub fn init(&self, device: &Device) -> MultiHeadAttention {
        burn::nn::attention::MultiHeadAttentionConfig {
            d_model: self.d_model,
            n_heads: self.n_heads,
            dropout: self.dropout,
            min_float: self.min_float,
            quiet_softmax: self.quiet_softmax,
            initializer: self.initializer.clone(),
            key_bias: self.key_bias,
            value_bias: self.value_bias,
            query_bias: self.query_bias,
            output_bias: self.output_bias,
        }
        .init(device)
        .into()
    }
}

/// Multi-head attention: burn-nn's `MultiHeadAttention`, whose projections of the same input run as one packed matrix if
/// their weights are [packed](super::PackedParam) alike (Huang et al., 2022, section 6). Records are interchangeable.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::attention::{MhaInput, MultiHeadAttentionConfig};
///
/// let device = Device::flex();
/// let attention = MultiHeadAttentionConfig::new(8, 2).init(&device);
/// let x = Tensor::<3>::ones([1, 5, 8], &device);
/// assert_eq!(attention.forward(MhaInput::self_attn(x)).context.dims(), [1, 5, 8]);
/// ```
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct MultiHeadAttention {
    /// Query projection.
    pub query: Linear,
    /// Key projection.
    pub key: Linear,
    /// Value projection.
    pub value: Linear,
    /// Output projection.
    pub output: Linear,
    /// Dropout of the attention weights.
    pub dropout: Dropout,
    /// Size of the features.
    pub d_model: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Size of the features of a head.
    pub d_k: usize,
    /// Score of masked positions.
    pub min_float: f64,
    /// `true` if the quiet softmax is used.
    pub quiet_softmax: bool,
    #[module(skip)]
    query_key_value: Fusion,
    #[module(skip)]
    key_value: Fusion,
}

/// Input of [`MultiHeadAttention::forward`], like burn-nn's `MhaInput`.
#[derive(Debug, Clone)]
pub struct MhaInput {
    query: Tensor<3>,
    /// Key and value; `None` if one sequence attends to itself.
    key_value: Option<[Tensor<3>; 2]>,
    mask: AttentionMask,
}

/// Positions that must not be attended to.
#[derive(Debug, Clone, Default)]
pub struct AttentionMask {
    /// `true` for keys that are padding, `[batch, keys]`.
    pub pad: Option<Tensor<2, Bool>>,
    /// `true` for masked pairs, `[batch or 1, queries, keys]`.
    pub attn: Option<Tensor<3, Bool>>,
}

/// Output of [`MultiHeadAttention::forward`], like burn-nn's `MhaOutput`.
#[derive(Debug, Clone)]
pub struct MhaOutput {
    /// Attention weights after dropout, `[batch, heads, queries, keys]`.
    pub weights: Tensor<4>,
    /// Context, `[batch, queries, d_model]`.
    pub context: Tensor<3>,
}

impl MhaInput {
    /// Creates the input of self-attention.
    ///
    /// # Shapes
    /// - `tensor`: `[batch, positions, d_model]`
    pub fn self_attn(tensor: Tensor<3>) -> Self {
        Self { query: tensor, key_value: None, mask: AttentionMask::default() }
    }

    /// Creates the input of cross-attention.
    ///
    /// # Shapes
    /// - `query`: `[batch, queries, d_model]`
    /// - `key`, `value`: `[batch, keys, d_model]`
    pub fn new(query: Tensor<3>, key: Tensor<3>, value: Tensor<3>) -> Self {
        Self { query, key_value: Some([key, value]), mask: AttentionMask::default() }
    }

    /// Masks padding: `true` for keys that must not be attended to, `[batch, keys]`.
    #[must_use]
    pub fn mask_pad(mut self, mask_pad: Tensor<2, Bool>) -> Self {
        self.mask.pad = Some(mask_pad);
        self
    }

    /// Masks pairs: `true` for queries and keys that must not see each other, `[batch or 1, queries, keys]`.
    #[must_use]
    pub fn mask_attn(mut self, mask_attn: Tensor<3, Bool>) -> Self {
        self.mask.attn = Some(mask_attn);
        self
    }
}

impl MhaInput {
    /// Sets both masks.
    pub(super) fn masked(
        mut self,
        pad: Option<Tensor<2, Bool>>,
        attn: Option<Tensor<3, Bool>>,
    ) -> Self {
        self.mask = AttentionMask { pad, attn };
        self
    }
}

impl MultiHeadAttention {
    /// Applies the layer. Self-attention computes query, key, and value in one product.
    ///
    /// # Shapes
    /// - query: `[batch, queries, d_model]`
    /// - key, value: `[batch, keys, d_model]`
    /// - context: `[batch, queries, d_model]`
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward(&self, input: MhaInput) -> MhaOutput {
        let MhaInput { query, key_value, mask } = input;
        let (query, cache) = match key_value {
            None => self.project(query),
            Some([key, value]) => {
                let [batch, _, _] = query.dims();
                assert_shape!(query, [_, _, self.d_model]);
                assert_shape!(key, [batch, _, self.d_model]);
                let [_, keys, _] = key.dims();
                assert_shape!(value, [batch, keys, self.d_model]);
                let query = self.split_heads(self.query.forward(query));
                let key = self.split_heads(self.key.forward(key));
                let value = self.split_heads(self.value.forward(value));
                (query, KeyValueCache::new(key, value))
            }
        };
        self.attend(query, &cache, &mask)
    }

    /// Applies the layer and returns its context alone. Without the attention weights, attention is one operator on the CPU
    /// without autodiff.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_context(&self, input: MhaInput) -> Tensor<3> {
        let batch = input.query.dims()[0];
        let plain = input.key_value.is_none()
            && input.mask.attn.is_none()
            && input.mask.pad.as_ref().is_none_or(|pad| pad.dims()[0] == batch)
            && !self.quiet_softmax;
        if !plain || input.query.is_autodiff() {
            return self.forward(input).context;
        }
        let (query, memory) = self.project(input.query);
        let padding = input.mask.pad.as_ref();
        let unseen = Unseen { padding, score: self.min_float as f32, causal: false };
        match attention(&query, &memory.key(), &memory.value(), unseen) {
            Some(context) => self.output.forward(context),
            None => self.attend(query, &memory, &input.mask).context,
        }
    }

    /// Applies the layer with a cache, as burn-nn's layer does: every call takes the whole sequences and computes only their
    /// last position. [`Self::forward_step`] takes the last position alone.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn forward_cache(&self, input: MhaInput, cache: &mut MhaCache) -> MhaOutput {
        let MhaInput { query, key_value, mask } = input;
        let [key, value] = key_value.unwrap_or_else(|| [query.clone(), query.clone()]);
        let ([batch, _, _], [_, positions, _]) = (query.dims(), key.dims());
        assert_shape!(query, [_, _, self.d_model]);
        assert_shape!(key, [batch, _, self.d_model]);
        assert_shape!(value, [batch, positions, self.d_model]);
        let heads = |layer: &Linear, x: Tensor<3>| self.split_heads(layer.forward(x));
        let query = cache.query.forward(query, |x| heads(&self.query, x));
        let key = cache.key.forward(key, |x| heads(&self.key, x));
        let value = cache.value.forward(value, |x| heads(&self.value, x));
        let (weights, context) = self.context(query, &KeyValueCache::new(key, value), &mask);
        let context = cache.output.forward(context, |x| self.output.forward(x));
        MhaOutput { weights, context }
    }

    /// Applies self-attention to the next position of a sequence, and appends its key and value to `cache` (`None` before
    /// the first position).
    ///
    /// # Shapes
    /// - `input` and the output: `[batch, 1, d_model]`
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward_step(&self, input: Tensor<3>, cache: &mut Option<KeyValueCache>) -> Tensor<3> {
        assert_shape!(input, [_, 1, self.d_model]);
        let (query, new) = self.project(input);
        let all = match cache.take() {
            Some(before) => before.append(new),
            None => new,
        };
        let context = self.attend(query, &all, &AttentionMask::default()).context;
        *cache = Some(all);
        context
    }

    /// Computes the keys and values of a sequence in one product, for [`Self::forward_cross`].
    ///
    /// # Shapes
    /// - `memory`: `[batch, keys, d_model]`
    ///
    /// # Panics
    /// Panics if the last axis is not `d_model`.
    pub fn key_value_cache(&self, memory: Tensor<3>) -> KeyValueCache {
        assert_shape!(memory, [_, _, self.d_model]);
        let layers = [&self.key, &self.value];
        let [key, value] = self.split(self.key_value.of(layers.into_iter()).forward(memory));
        KeyValueCache::new(key, value)
    }

    /// Applies cross-attention to a sequence whose keys and values are already computed.
    ///
    /// # Shapes
    /// - `query` and the output: `[batch, queries, d_model]`
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward_cross(
        &self,
        query: Tensor<3>,
        memory: &KeyValueCache,
        mask: &AttentionMask,
    ) -> Tensor<3> {
        assert_shape!(query, [_, _, self.d_model]);
        self.attend(self.split_heads(self.query.forward(query)), memory, mask).context
    }

    /// Computes query, key, and value in one product.
    fn project(&self, input: Tensor<3>) -> (Tensor<4>, KeyValueCache) {
        assert_shape!(input, [_, _, self.d_model]);
        let layers = [&self.query, &self.key, &self.value];
        let fused = self.query_key_value.of(layers.into_iter());
        let [query, key, value] = self.split(fused.forward(input));
        (query, KeyValueCache::new(key, value))
    }

    /// Splits `[batch, positions, N · d_model]` into `N` times `[batch, heads, positions, d_k]`, views of the product.
    fn split<const N: usize>(&self, x: Tensor<3>) -> [Tensor<4>; N] {
        let [batch, positions, _] = x.dims();
        let all = x.reshape([batch, positions, N * self.n_heads, self.d_k]);
        std::array::from_fn(|at| {
            all.clone().narrow(2, at * self.n_heads, self.n_heads).swap_dims(1, 2)
        })
    }

    /// Splits `[batch, positions, d_model]` into `[batch, heads, positions, d_k]`.
    fn split_heads(&self, x: Tensor<3>) -> Tensor<4> {
        let [batch, positions, _] = x.dims();
        x.reshape([batch, positions, self.n_heads, self.d_k]).swap_dims(1, 2)
    }

    fn attend(&self, query: Tensor<4>, memory: &KeyValueCache, mask: &AttentionMask) -> MhaOutput {
        let (weights, context) = self.context(query, memory, mask);
        MhaOutput { weights, context: self.output.forward(context) }
    }

    /// Returns the attention weights, and the context before the output projection.
    fn context(
        &self,
        query: Tensor<4>,
        memory: &KeyValueCache,
        mask: &AttentionMask,
    ) -> (Tensor<4>, Tensor<3>) {
        let [batch, _, queries, _] = query.dims();
        let (key, value) = (memory.key(), memory.value());
        let mut scores = query.matmul(key.transpose()) / (self.d_k as f64).sqrt();
        if let Some(pad) = &mask.pad {
            let [batch, keys] = pad.dims();
            scores = scores.mask_fill(pad.clone().reshape([batch, 1, 1, keys]), self.min_float);
        }
        if let Some(attn) = &mask.attn {
            let [batch, queries, keys] = attn.dims();
            let attn = attn.clone().reshape([batch, 1, queries, keys]);
            scores = scores.mask_fill(attn, self.min_float);
        }
        let weights =
            if self.quiet_softmax { quiet_softmax(scores, 3) } else { softmax(scores, 3) };
        let weights = self.dropout.forward(weights);
        let context = weights.clone().matmul(value).swap_dims(1, 2);
        (weights, context.reshape([batch, queries, self.d_model]))
    }
}

impl From<burn::nn::attention::MultiHeadAttention> for MultiHeadAttention {
    fn from(layer: burn::nn::attention::MultiHeadAttention) -> Self {
        Self {
            query: layer.query.into(),
            key: layer.key.into(),
            value: layer.value.into(),
            output: layer.output.into(),
            dropout: layer.dropout,
            d_model: layer.d_model,
            n_heads: layer.n_heads,
            d_k: layer.d_k,
            min_float: layer.min_float,
            quiet_softmax: layer.quiet_softmax,
            query_key_value: Fusion::default(),
            key_value: Fusion::default(),
        }
    }
}

impl ModuleDisplay for MultiHeadAttention {
    fn custom_settings(&self) -> Option<DisplaySettings> {
        DisplaySettings::new().with_new_line_after_attribute(false).optional()
    }

    fn custom_content(&self, content: Content) -> Option<Content> {
        content
            .add("d_model", &self.d_model)
            .add("n_heads", &self.n_heads)
            .add("d_k", &self.d_k)
            .add("dropout", &self.dropout.prob)
            .add("min_float", &self.min_float)
            .add("quiet_softmax", &self.quiet_softmax)
            .optional()
    }
}
