use burn::config::Config;
use burn::module::Module;
use burn::nn::{Initializer, RmsNorm, RmsNormConfig};
use burn::tensor::{Device, Int, Tensor};
use burn_sparse::calibrate::Blocks;
use burn_sparse::nn::attention::{
    GroupedQueryAttention, GroupedQueryAttentionConfig, KeyValueCache,
};
use burn_sparse::nn::transformer::{GatedFeedForward, GatedFeedForwardConfig};
use burn_sparse::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig, Rotary, rms_norm};

/// Configuration of a [`Llama`] decoder.
#[derive(Config, Debug)]
pub struct LlamaConfig {
    /// Size of the features.
    pub d_model: usize,
    /// Size of the inner features of the feed-forward blocks.
    pub d_ff: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of key and value heads.
    pub n_key_value_heads: usize,
    /// Size of the features of a head.
    pub d_head: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Largest number of tokens in a text.
    pub positions: usize,
    /// Base of the rotary position embedding's wavelengths.
    #[config(default = 10000.0)]
    pub theta: f64,
    /// Epsilon of the norms.
    #[config(default = 1e-6)]
    pub epsilon: f64,
    /// `true` if the head is the transposed embedding.
    #[config(default = false)]
    pub tied: bool,
}

/// Llama decoder (Touvron et al., 2023): RMS norms, rotary position embeddings, grouped key and value heads, SwiGLU.
#[derive(Module, Debug)]
pub struct Llama {
    embedding: Embedding,
    layers: Vec<LlamaLayer>,
    norm: RmsNorm,
    /// `None` if the embedding is the head.
    head: Option<Linear>,
    theta: f64,
    d_head: usize,
}

#[derive(Module, Debug)]
struct LlamaLayer {
    attention_norm: RmsNorm,
    attention: GroupedQueryAttention,
    feed_forward_norm: RmsNorm,
    feed_forward: GatedFeedForward,
}

/// Keys and values of the positions that a [`Llama`] has seen.
#[derive(Debug, Clone, Default)]
pub struct LlamaCache {
    layers: Vec<Option<KeyValueCache>>,
    seen: usize,
}

impl LlamaConfig {
    /// Creates the decoder with zero weights, which are then to be loaded.
    ///
    /// # Panics
    /// Panics if `n_key_value_heads` does not divide `n_heads`, or `d_head` is odd.
    pub fn init(&self, device: &Device) -> Llama {
        let norm = || RmsNormConfig::new(self.d_model).with_epsilon(self.epsilon).init(device);
        let zeros = Initializer::Zeros;
        let layer = |_| LlamaLayer {
            attention_norm: norm(),
            attention: GroupedQueryAttentionConfig::new(
                self.d_model,
                self.n_heads,
                self.n_key_value_heads,
                self.d_head,
            )
            .with_initializer(zeros.clone())
            .init(device),
            feed_forward_norm: norm(),
            feed_forward: GatedFeedForwardConfig::new(self.d_model, self.d_ff)
                .with_initializer(zeros.clone())
                .init(device),
        };
        let head = || {
            let config = LinearConfig::new(self.d_model, self.vocabulary).with_bias(false);
            config.with_initializer(zeros.clone()).init(device)
        };
        Llama {
            embedding: EmbeddingConfig::new(self.vocabulary, self.d_model)
                .with_initializer(zeros.clone())
                .init(device),
            layers: (0..self.n_layers).map(layer).collect(),
            norm: norm(),
            head: (!self.tied).then(head),
            theta: self.theta,
            d_head: self.d_head,
        }
    }
}

impl Llama {
    /// Computes the features of the next positions of a sequence, from which [`Self::logits`] predicts the token after each.
    /// The cache holds the keys and values of the previous positions, and is extended.
    ///
    /// # Shapes
    /// - `tokens`: `[batch, positions]`
    /// - output: `[batch, positions, d_model]`
    ///
    /// # Panics
    /// Panics if a token is not below `vocabulary`.
    pub fn forward(&self, tokens: Tensor<2, Int>, cache: Option<&mut LlamaCache>) -> Tensor<3> {
        self.run(tokens, cache, |_| ())
    }

    /// Computes the features of a sequence after every layer, followed by the normalized features that [`Self::forward`]
    /// returns.
    ///
    /// # Shapes
    /// As [`Self::forward`], one output for each layer and one more.
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn hidden_states(&self, tokens: Tensor<2, Int>) -> Vec<Tensor<3>> {
        let mut states = Vec::with_capacity(self.layers.len() + 1);
        let last = self.run(tokens, None, |x| states.push(x.clone()));
        states.push(last);
        states
    }

    /// Returns the features of tokens before the first layer.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn embed(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        self.embedding.forward(tokens)
    }

    fn run(
        &self,
        tokens: Tensor<2, Int>,
        cache: Option<&mut LlamaCache>,
        mut after_layer: impl FnMut(&Tensor<3>),
    ) -> Tensor<3> {
        let [_, positions] = tokens.dims();
        let mut none = LlamaCache::default();
        let (cache, keep) = match cache {
            Some(cache) => (cache, true),
            None => (&mut none, false),
        };
        cache.layers.resize(self.layers.len(), None);
        let range = cache.seen..cache.seen + positions;
        cache.seen = range.end;
        let rotary = Rotary::new(self.theta, self.d_head, range, &tokens.device());
        let mut x = self.embed(tokens);
        for (layer, cache) in self.layers.iter().zip(&mut cache.layers) {
            x = layer.transform(layer.attend(x, &rotary, keep.then_some(cache)));
            after_layer(&x);
        }
        rms_norm(&self.norm, x)
    }

    /// Computes the scores of the token after each position.
    ///
    /// # Shapes
    /// - `features`: `[batch, positions, d_model]`
    /// - output: `[batch, positions, vocabulary]`
    pub fn logits(&self, features: Tensor<3>) -> Tensor<3> {
        match &self.head {
            Some(head) => head.forward(features),
            None => self.embedding.scores(features),
        }
    }
}

impl LlamaLayer {
    /// Applies the attention, with its residual connection.
    fn attend(
        &self,
        x: Tensor<3>,
        rotary: &Rotary,
        cache: Option<&mut Option<KeyValueCache>>,
    ) -> Tensor<3> {
        let normed = rms_norm(&self.attention_norm, x.clone());
        x + self.attention.forward(normed, rotary, cache)
    }

    /// Applies the feed-forward block, with its residual connection.
    fn transform(&self, x: Tensor<3>) -> Tensor<3> {
        x.clone() + self.feed_forward.forward(rms_norm(&self.feed_forward_norm, x))
    }
}

/// Runs [`Llama`] block by block, for calibration: every attention and every feed-forward is a block, and so is the head. The
/// state is what [`Llama::embed`] returns for whole sequences.
#[derive(Debug, Clone, Copy, Default)]
pub struct LlamaBlocks;

impl Blocks<Llama> for LlamaBlocks {
    type State = Tensor<3>;

    fn len(&self, model: &Llama) -> usize {
        2 * model.layers.len() + 1
    }

    fn run(&self, model: &Llama, block: usize, x: &Tensor<3>) -> Tensor<3> {
        let Some(layer) = model.layers.get(block / 2) else {
            return match &model.head {
                Some(head) => head.forward(rms_norm(&model.norm, x.clone())),
                None => x.clone(),
            };
        };
        match block % 2 {
            0 => {
                let positions = 0..x.dims()[1];
                let rotary = Rotary::new(model.theta, model.d_head, positions, &x.device());
                layer.attend(x.clone(), &rotary, None)
            }
            _ => layer.transform(x.clone()),
        }
    }

    fn features(&self, x: &Tensor<3>) -> Option<Tensor<3>> {
        Some(x.clone())
    }

    fn with_features(&self, _x: &Tensor<3>, features: Tensor<3>) -> Tensor<3> {
        features
    }
}
