use burn::config::Config;
use burn::module::Module;
use burn::nn::activation::ActivationConfig;
use burn::nn::{
    Dropout, DropoutConfig, Embedding, EmbeddingConfig, Initializer, LayerNorm, LayerNormConfig,
};
use burn::tensor::{Bool, Device, Int, Tensor, TensorData};
use burn::train::ClassificationOutput;
use burn_sparse::nn::{
    AttentionMask, KeyValues, Linear, LinearConfig, MultiHeadAttention, MultiHeadAttentionConfig,
    PositionWiseFeedForward, PositionWiseFeedForwardConfig,
};

use crate::classification::{smoothed, trained_by_classify};

/// The size of a [`Transformer`].
#[derive(Config, Debug)]
pub struct TransformerConfig {
    /// Tokens of the vocabulary that both languages share.
    pub tokens: usize,
    /// Features of a position.
    pub features: usize,
    /// Features inside a feed-forward block.
    pub hidden: usize,
    /// Heads of an attention.
    pub heads: usize,
    /// Layers of the encoder, and of the decoder.
    pub layers: usize,
    /// Share of features that training leaves out.
    pub dropout: f64,
}

/// An encoder and a decoder for translation (Vaswani et al., 2017), normalized before each block (Xiong et al.,
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

/// Sentences with their translations.
#[derive(Debug, Clone)]
pub struct TranslationBatch {
    /// Tokens to translate, `[batch, positions]`.
    pub source: Tensor<2, Int>,
    /// True where a sentence is over, `[batch, positions]`.
    pub source_pad: Tensor<2, Bool>,
    /// Tokens of the translation up to the last but one, `[batch, positions]`.
    pub target: Tensor<2, Int>,
    /// The places of `target`, flat, where a sentence is not over: `[tokens]`.
    pub places: Tensor<1, Int>,
    /// What follows at each of them, `[tokens]`.
    pub next: Tensor<1, Int>,
}

/// What a decoder remembers of the sentences it translates: the caches of its keys and values.
#[derive(Debug)]
pub struct Decoding {
    layers: Vec<Remembered>,
    pad: AttentionMask,
    position: usize,
}

#[derive(Debug)]
struct Remembered {
    source: KeyValues,
    target: Option<KeyValues>,
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

/// Label smoothing (Szegedy et al., 2016; Vaswani et al., 2017, section 5.4).
const SMOOTHING: f64 = 0.1;

impl TransformerConfig {
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
            head: Linear::new(
                &LinearConfig::new(self.features, self.tokens).with_initializer(XAVIER),
                device,
            ),
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
            layers: PositionWiseFeedForward::new(&config, device),
            dropout: self.dropout(),
        }
    }

    fn attention(&self, device: &Device) -> MultiHeadAttention {
        let config = MultiHeadAttentionConfig::new(self.features, self.heads)
            .with_dropout(self.dropout)
            .with_initializer(XAVIER);
        MultiHeadAttention::new(&config, device)
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
    /// Scores for the token after each of `batch.places`.
    ///
    /// # Shapes
    /// - output: `[tokens, vocabulary]`
    pub fn forward(&self, batch: &TranslationBatch) -> Tensor<2> {
        let pad = AttentionMask { pad: Some(batch.source_pad.clone()), pairs: None };
        let memory = self.encode(batch.source.clone(), &pad);
        let x = self.embed(batch.target.clone(), 0);
        let [sentences, positions, features] = x.dims();
        // No position sees a later one, so that what fills a sentence up is never looked at from inside it.
        let later = Tensor::<2, Bool>::tril_mask([positions, positions], 0, &x.device());
        let later = AttentionMask { pad: None, pairs: Some(later.unsqueeze()) };
        let x = self.decoder.iter().fold(x, |x, layer| {
            let seen = layer.cross.remember(memory.clone());
            let looked =
                layer.attention.self_attention(layer.attention_norm.forward(x.clone()), &later);
            layer.rest(x, looked, &seen, &pad)
        });
        let x = x.reshape([sentences * positions, features]).select(0, batch.places.clone());
        self.head.forward(self.decoder_norm.forward(x))
    }

    /// Reads sentences to be translated token by token (incremental decoding).
    ///
    /// # Shapes
    /// - source, source_pad: `[batch, positions]`
    pub fn read(&self, source: Tensor<2, Int>, source_pad: Tensor<2, Bool>) -> Decoding {
        let pad = AttentionMask { pad: Some(source_pad), pairs: None };
        let memory = self.encode(source, &pad);
        let remember = |layer: &Decoder| Remembered {
            source: layer.cross.remember(memory.clone()),
            target: None,
        };
        Decoding { layers: self.decoder.iter().map(remember).collect(), pad, position: 0 }
    }

    /// Scores for the token after these, which follow on those of the calls before.
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
            let looked = layer.attention.self_attention_step(input, &mut remembered.target);
            layer.rest(x, looked, &remembered.source, &decoding.pad)
        });
        self.head.forward(self.decoder_norm.forward(x.squeeze_dim(1)))
    }

    fn encode(&self, source: Tensor<2, Int>, pad: &AttentionMask) -> Tensor<3> {
        let x = self.embed(source, 0);
        let x = self.encoder.iter().fold(x, |x, layer| {
            let input = layer.attention_norm.forward(x.clone());
            let x = x + layer.dropout.forward(layer.attention.self_attention(input, pad));
            layer.feed_forward.forward(x)
        });
        self.encoder_norm.forward(x)
    }

    /// Tokens with their places, of which the first is `from`.
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
    /// What follows when the translation has looked at itself.
    fn rest(
        &self,
        x: Tensor<3>,
        looked: Tensor<3>,
        source: &KeyValues,
        pad: &AttentionMask,
    ) -> Tensor<3> {
        let x = x + self.dropout.forward(looked);
        let seen = self.cross.look(self.cross_norm.forward(x.clone()), source, pad);
        self.feed_forward.forward(x + self.dropout.forward(seen))
    }
}

impl FeedForward {
    fn forward(&self, x: Tensor<3>) -> Tensor<3> {
        let y = self.layers.forward(self.norm.forward(x.clone()));
        x + self.dropout.forward(y)
    }
}

/// Sines and cosines of places (Vaswani et al., 2017, section 3.5), `[1, positions, features]`.
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
