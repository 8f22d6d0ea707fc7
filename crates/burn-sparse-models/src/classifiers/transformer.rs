use burn::config::Config;
use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::{Dropout, DropoutConfig, Initializer, LayerNorm, LayerNormConfig};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use burn::train::ClassificationOutput;
use burn_sparse::nn::attention::{
    AttentionMask, KeyValueCache, MhaInput, MultiHeadAttention, MultiHeadAttentionConfig,
};
use burn_sparse::nn::transformer::{PositionWiseFeedForward, PositionWiseFeedForwardConfig};
use burn_sparse::nn::{Embedding, EmbeddingConfig, Linear, LinearConfig};

use super::narrowed::narrowed;
use super::steps::{smoothed, trained_by_classify};

/// Configuration of a [`Transformer`].
#[derive(Config, Debug)]
pub struct TransformerConfig {
    /// Number of tokens in the vocabulary that both languages share.
    pub tokens: usize,
    /// Features per position.
    pub features: usize,
    /// Hidden features of each feed-forward block.
    pub hidden: usize,
    /// Heads of each attention layer.
    pub heads: usize,
    /// Number of encoder layers, and of decoder layers.
    pub layers: usize,
    /// Dropout probability.
    pub dropout: f64,
}

/// Encoder and decoder for translation (Vaswani et al., 2017), with normalization before each block (Xiong et al.,
/// 2020).
#[derive(Module, Debug)]
pub struct Transformer {
    embedding: Embedding,
    encoder: Vec<Encoder>,
    encoder_norm: LayerNorm,
    decoder: Vec<Decoder>,
    decoder_norm: LayerNorm,
    head: Linear,
    dropout: Dropout,
}

/// Batch of sentences with their translations.
#[derive(Debug, Clone)]
pub struct TranslationBatch {
    /// Tokens to translate, `[batch, positions]`.
    pub source: Tensor<2, Int>,
    /// Padding mask of `source`, `true` after the end of a sentence, `[batch, positions]`.
    pub source_pad: Tensor<2, Bool>,
    /// Decoder input: the begin token and the tokens of the translation except its last, `[batch, positions]`.
    pub target: Tensor<2, Int>,
    /// Indices into the flattened `target` of the positions that are not padding, `[tokens]`.
    pub places: Tensor<1, Int>,
    /// Token to predict at each of these positions, `[tokens]`.
    pub next: Tensor<1, Int>,
}

/// State of incremental decoding: the key and value caches of each decoder layer.
#[derive(Debug)]
pub struct Decoding {
    layers: Vec<Remembered>,
    pad: AttentionMask,
    position: usize,
}

#[derive(Debug)]
struct Remembered {
    source: KeyValueCache,
    target: Option<KeyValueCache>,
}

#[derive(Module, Debug)]
struct Encoder {
    attention_norm: LayerNorm,
    attention: MultiHeadAttention,
    feed_forward: FeedForward,
    dropout: Dropout,
}

#[derive(Module, Debug)]
struct Decoder {
    attention_norm: LayerNorm,
    attention: MultiHeadAttention,
    cross_norm: LayerNorm,
    cross: MultiHeadAttention,
    feed_forward: FeedForward,
    dropout: Dropout,
}

#[derive(Module, Debug)]
struct FeedForward {
    norm: LayerNorm,
    layers: PositionWiseFeedForward,
    dropout: Dropout,
}

/// Label smoothing factor (Szegedy et al., 2016; Vaswani et al., 2017, section 5.4).
const SMOOTHING: f64 = 0.1;

impl TransformerConfig {
    /// Multiplies the width of the layers by `share`, rounded to multiples of 8.
    #[must_use]
    pub fn narrowed(mut self, share: f64) -> Self {
        self.features = narrowed(self.features, share);
        self.hidden = narrowed(self.hidden, share);
        self
    }

    /// Initializes the model.
    pub fn init(&self, device: &Device) -> Transformer {
        let scale = (self.features as f64).powf(-0.5);
        Transformer {
            embedding: EmbeddingConfig::new(self.tokens, self.features)
                .with_initializer(Initializer::Normal { mean: 0.0, std: scale })
                .init(device),
            encoder: (0..self.layers).map(|_| self.encoder(device)).collect(),
            encoder_norm: self.norm(device),
            decoder: (0..self.layers).map(|_| self.decoder(device)).collect(),
            decoder_norm: self.norm(device),
            head: LinearConfig::new(self.features, self.tokens)
                .with_initializer(XAVIER)
                .init(device),
            dropout: self.dropout(),
        }
    }

    fn encoder(&self, device: &Device) -> Encoder {
        Encoder {
            attention_norm: self.norm(device),
            attention: self.attention(device),
            feed_forward: self.feed_forward(device),
            dropout: self.dropout(),
        }
    }

    fn decoder(&self, device: &Device) -> Decoder {
        Decoder {
            attention_norm: self.norm(device),
            attention: self.attention(device),
            cross_norm: self.norm(device),
            cross: self.attention(device),
            feed_forward: self.feed_forward(device),
            dropout: self.dropout(),
        }
    }

    fn feed_forward(&self, device: &Device) -> FeedForward {
        let config = PositionWiseFeedForwardConfig::new(self.features, self.hidden)
            .with_dropout(0.0)
            .with_activation(ActivationConfig::Relu)
            .with_initializer(XAVIER);
        FeedForward {
            norm: self.norm(device),
            layers: config.init(device),
            dropout: self.dropout(),
        }
    }

    fn attention(&self, device: &Device) -> MultiHeadAttention {
        let config = MultiHeadAttentionConfig::new(self.features, self.heads)
            .with_dropout(self.dropout)
            .with_initializer(XAVIER);
        config.init(device)
    }

    fn norm(&self, device: &Device) -> LayerNorm {
        LayerNormConfig::new(self.features).init(device)
    }

    fn dropout(&self) -> Dropout {
        DropoutConfig::new(self.dropout).init()
    }
}

const XAVIER: Initializer = Initializer::XavierUniform { gain: 1.0 };

impl Transformer {
    /// Computes scores for the token that follows each of `batch.places`.
    ///
    /// # Shapes
    /// - output: `[tokens, vocabulary]`
    pub fn forward(&self, batch: &TranslationBatch) -> Tensor<2> {
        let pad = AttentionMask { pad: Some(batch.source_pad.clone()), attn: None };
        let memory = self.encode(batch.source.clone(), &pad);
        let x = self.embed(batch.target.clone(), 0);
        let [sentences, positions, features] = x.dims();
        // The causal mask also hides the padding of the target: it follows the sentence, so no token attends to it.
        let later = Tensor::<2, Bool>::tril_mask([positions, positions], 0, &x.device());
        let later: Tensor<3, Bool> = later.unsqueeze();
        let x = self.decoder.iter().fold(x, |x, layer| {
            let seen = layer.cross.key_value_cache(memory.clone());
            let input = MhaInput::self_attn(layer.attention_norm.forward(x.clone()));
            let looked = layer.attention.forward(input.mask_attn(later.clone())).context;
            layer.rest(x, looked, &seen, &pad)
        });
        let x = x.reshape([sentences * positions, features]).select(0, batch.places.clone());
        self.head.forward(self.decoder_norm.forward(x))
    }

    /// Encodes sentences to be translated token by token (incremental decoding).
    ///
    /// # Shapes
    /// - source, source_pad: `[batch, positions]`
    pub fn read(&self, source: Tensor<2, Int>, source_pad: Tensor<2, Bool>) -> Decoding {
        let pad = AttentionMask { pad: Some(source_pad), attn: None };
        let memory = self.encode(source, &pad);
        let remember = |layer: &Decoder| Remembered {
            source: layer.cross.key_value_cache(memory.clone()),
            target: None,
        };
        Decoding { layers: self.decoder.iter().map(remember).collect(), pad, position: 0 }
    }

    /// Computes scores for the token that follows `tokens`, which continue those of the previous calls.
    ///
    /// # Shapes
    /// - tokens: `[batch]`
    /// - output: `[batch, vocabulary]`
    pub fn write(&self, tokens: Tensor<1, Int>, decoding: &mut Decoding) -> Tensor<2> {
        let x = self.embed(tokens.unsqueeze_dim(1), decoding.position);
        decoding.position += 1;
        let layers = self.decoder.iter().zip(&mut decoding.layers);
        let x = layers.fold(x, |x, (layer, remembered)| {
            let input = layer.attention_norm.forward(x.clone());
            let looked = layer.attention.forward_step(input, &mut remembered.target);
            layer.rest(x, looked, &remembered.source, &decoding.pad)
        });
        self.head.forward(self.decoder_norm.forward(x.squeeze_dim(1)))
    }

    fn encode(&self, source: Tensor<2, Int>, pad: &AttentionMask) -> Tensor<3> {
        let x = self.embed(source, 0);
        let x = self.encoder.iter().fold(x, |x, layer| {
            let input = MhaInput::self_attn(layer.attention_norm.forward(x.clone()));
            let input = match &pad.pad {
                Some(pad) => input.mask_pad(pad.clone()),
                None => input,
            };
            let x = x + layer.dropout.forward(layer.attention.forward_context(input));
            layer.feed_forward.forward(x)
        });
        self.encoder_norm.forward(x)
    }

    /// Embeds tokens and adds positional encodings, starting at position `from`.
    fn embed(&self, tokens: Tensor<2, Int>, from: usize) -> Tensor<3> {
        let x = self.embedding.forward(tokens);
        let [_, positions, features] = x.dims();
        let places = places(from, positions, features, &x.device());
        self.dropout.forward(x * (features as f64).sqrt() + places)
    }

    fn classify(&self, batch: TranslationBatch) -> ClassificationOutput {
        smoothed(self.forward(&batch), batch.next, SMOOTHING)
    }
}

trained_by_classify!(Transformer, TranslationBatch);

impl Decoder {
    /// Applies the rest of the layer after self-attention, whose output is `looked`.
    fn rest(
        &self,
        x: Tensor<3>,
        looked: Tensor<3>,
        source: &KeyValueCache,
        pad: &AttentionMask,
    ) -> Tensor<3> {
        let x = x + self.dropout.forward(looked);
        let seen = self.cross.forward_cross(self.cross_norm.forward(x.clone()), source, pad);
        self.feed_forward.forward(x + self.dropout.forward(seen))
    }
}

impl FeedForward {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let y = self.layers.forward(self.norm.forward(x.clone()));
        x + self.dropout.forward(y)
    }
}

/// Computes sinusoidal positional encodings (Vaswani et al., 2017, section 3.5), `[1, positions, features]`.
fn places(from: usize, positions: usize, features: usize, device: &Device) -> Tensor<3> {
    let value = |(place, feature): (usize, usize)| {
        let slow = 10_000_f64.powf((feature / 2 * 2) as f64 / features as f64);
        let angle = place as f64 / slow;
        (if feature % 2 == 0 { angle.sin() } else { angle.cos() }) as f32
    };
    let all = (from..from + positions).flat_map(|at| (0..features).map(move |f| (at, f)));
    let values: Vec<f32> = all.map(value).collect();
    Tensor::from_data(TensorData::new(values, [1, positions, features]), device)
}
