use burn::config::Config;
use burn::module::Module;
use burn::nn::{Dropout, DropoutConfig, Initializer, LayerNorm, LayerNormConfig};
use burn::tensor::{Bool, Device, Int, Tensor};
use burn_sparse::calibrate::Blocks;
use burn_sparse::nn::attention::{MhaInput, MultiHeadAttention, MultiHeadAttentionConfig};
use burn_sparse::nn::transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig};
use burn_sparse::nn::{Embedding, EmbeddingConfig};

use super::Pooling;

/// Configuration of a [`Bert`] encoder.
#[derive(Config, Debug)]
pub struct BertConfig {
    /// Size of the features.
    pub d_model: usize,
    /// Size of the inner features of the feed-forward blocks.
    pub d_ff: usize,
    /// Number of heads.
    pub n_heads: usize,
    /// Number of layers.
    pub n_layers: usize,
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Largest number of tokens in a text.
    pub positions: usize,
    /// Number of token types.
    pub types: usize,
    /// Epsilon of the norms.
    #[config(default = 1e-12)]
    pub epsilon: f64,
    /// Dropout rate of the features in training.
    #[config(default = 0.0)]
    pub dropout: f64,
    /// How the features of a text's tokens become its embedding.
    #[config(default = "Pooling::Mean")]
    pub pooling: Pooling,
    /// `true` to scale embeddings to length one.
    #[config(default = true)]
    pub normalize: bool,
}

/// BERT encoder (Devlin et al., 2019): learned absolute positions, post-norm, exact GELU.
#[derive(Module, Debug)]
pub struct Bert {
    word: Embedding,
    position: Embedding,
    token_type: Embedding,
    norm: LayerNorm,
    dropout: Dropout,
    layers: Vec<BertLayer>,
    #[module(skip)]
    pooling: Pooling,
    #[module(skip)]
    normalize: bool,
}

#[derive(Module, Debug)]
struct BertLayer {
    attention: MultiHeadAttention,
    attention_norm: LayerNorm,
    feed_forward: PositionWiseFeedForward,
    feed_forward_norm: LayerNorm,
    dropout: Dropout,
}

impl BertConfig {
    /// Creates the encoder with zero weights, which are then to be loaded.
    pub fn init(&self, device: &Device) -> Bert {
        let norm = || LayerNormConfig::new(self.d_model).with_epsilon(self.epsilon).init(device);
        let zeros = Initializer::Zeros;
        let embedding = |rows| {
            let config = EmbeddingConfig::new(rows, self.d_model);
            config.with_initializer(zeros.clone()).init(device)
        };
        let dropout = || DropoutConfig::new(self.dropout).init();
        let layer = |_| BertLayer {
            attention: MultiHeadAttentionConfig::new(self.d_model, self.n_heads)
                .with_dropout(self.dropout)
                .with_initializer(zeros.clone())
                .init(device),
            attention_norm: norm(),
            feed_forward: PositionWiseFeedForwardConfig::new(self.d_model, self.d_ff)
                .with_dropout(0.0)
                .with_initializer(zeros.clone())
                .init(device),
            feed_forward_norm: norm(),
            dropout: dropout(),
        };
        Bert {
            word: embedding(self.vocabulary),
            position: embedding(self.positions),
            token_type: embedding(self.types),
            norm: norm(),
            dropout: dropout(),
            layers: (0..self.n_layers).map(layer).collect(),
            pooling: self.pooling,
            normalize: self.normalize,
        }
    }
}

impl Bert {
    /// Computes the features of every token.
    ///
    /// # Shapes
    /// - `tokens`: `[batch, positions]`
    /// - `padding`: `[batch, positions]`, `true` for padding; `None` if there is none
    /// - output: `[batch, positions, d_model]`
    ///
    /// # Panics
    /// Panics if a text has more than `positions` tokens, or a token is not below `vocabulary`.
    pub fn forward(&self, tokens: Tensor<2, Int>, padding: Option<&Tensor<2, Bool>>) -> Tensor<3> {
        self.run(tokens, padding, |_| ())
    }

    /// Computes the features of every token after every layer; the last are those of [`Self::forward`].
    ///
    /// # Shapes
    /// As [`Self::forward`], one output for each layer.
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn hidden_states(
        &self,
        tokens: Tensor<2, Int>,
        padding: Option<&Tensor<2, Bool>>,
    ) -> Vec<Tensor<3>> {
        let mut states = Vec::with_capacity(self.layers.len());
        self.run(tokens, padding, |x| states.push(x.clone()));
        states
    }

    fn run(
        &self,
        tokens: Tensor<2, Int>,
        padding: Option<&Tensor<2, Bool>>,
        mut after_layer: impl FnMut(&Tensor<3>),
    ) -> Tensor<3> {
        let mut x = self.features(tokens);
        for layer in &self.layers {
            x = layer.transform(layer.attend(x, padding));
            after_layer(&x);
        }
        x
    }

    /// Returns the features of tokens before the first layer.
    ///
    /// # Shapes
    /// As [`Self::forward`].
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn features(&self, tokens: Tensor<2, Int>) -> Tensor<3> {
        let [_, positions] = tokens.dims();
        let at = Tensor::<1, Int>::arange(0..positions as i64, &tokens.device()).unsqueeze::<2>();
        let places = self.position.forward(at.clone()) + self.token_type.forward(at.zeros_like());
        self.dropout.forward(self.norm.forward(self.word.forward(tokens) + places))
    }

    /// Computes the embedding of every text: its tokens' features, pooled as [`BertConfig`] says.
    ///
    /// # Shapes
    /// - `tokens`, `padding`: as [`Self::forward`]
    /// - output: `[batch, d_model]`
    ///
    /// # Panics
    /// As [`Self::forward`].
    pub fn embed(&self, tokens: Tensor<2, Int>, padding: Option<&Tensor<2, Bool>>) -> Tensor<2> {
        let x = self.forward(tokens, padding);
        match self.normalize {
            true => self.pooling.direction(x, padding),
            false => self.pooling.apply(x, padding),
        }
    }

    /// Returns how the features of a text's tokens become its embedding.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }
}

impl BertLayer {
    /// Applies the attention, with its residual connection and norm.
    fn attend(&self, x: Tensor<3>, padding: Option<&Tensor<2, Bool>>) -> Tensor<3> {
        let mut input = MhaInput::self_attn(x.clone());
        if let Some(padding) = padding {
            input = input.mask_pad(padding.clone());
        }
        let context = self.dropout.forward(self.attention.forward_context(input));
        self.attention_norm.forward(x + context)
    }

    /// Applies the feed-forward block, with its residual connection and norm.
    fn transform(&self, x: Tensor<3>) -> Tensor<3> {
        let y = self.dropout.forward(self.feed_forward.forward(x.clone()));
        self.feed_forward_norm.forward(x + y)
    }
}

/// Runs [`Bert`] block by block, for calibration: every attention and every feed-forward is a block. The state is what
/// [`Bert::features`] returns for texts of one length, without padding.
#[derive(Debug, Clone, Copy, Default)]
pub struct BertBlocks;

impl Blocks<Bert> for BertBlocks {
    type State = Tensor<3>;

    fn len(&self, model: &Bert) -> usize {
        2 * model.layers.len()
    }

    fn run(&self, model: &Bert, block: usize, x: &Tensor<3>) -> Tensor<3> {
        match (model.layers.get(block / 2), block % 2) {
            (Some(layer), 0) => layer.attend(x.clone(), None),
            (Some(layer), _) => layer.transform(x.clone()),
            (None, _) => x.clone(),
        }
    }

    fn features(&self, x: &Tensor<3>) -> Option<Tensor<3>> {
        Some(x.clone())
    }

    fn with_features(&self, _x: &Tensor<3>, features: Tensor<3>) -> Tensor<3> {
        features
    }
}
