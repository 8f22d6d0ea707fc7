use burn::module::{Content, DisplaySettings, Module, ModuleDisplay};
use burn::nn::Dropout;
use burn::tensor::activation::{quiet_softmax, softmax};
use burn::tensor::{Bool, Device, Tensor};

use super::Linear;
use super::fused::Fusion;

pub use burn::nn::attention::MultiHeadAttentionConfig;

/// burn-nn's `MultiHeadAttention`, whose query, key and value run as one packed matrix when their weights are
/// [packed](super::Packed) alike (Shfl-BW's own case: Huang et al., 2022, section 6).
///
/// Made from the same configuration, saved in the same record.
#[derive(Module, Debug)]
#[module(custom_display)]
pub struct MultiHeadAttention {
    /// What looks.
    pub query: Linear,
    /// What is looked at.
    pub key: Linear,
    /// What is seen there.
    pub value: Linear,
    /// From all heads back to the model.
    pub output: Linear,
    /// Of the attention weights.
    pub dropout: Dropout,
    /// Features of the model.
    pub d_model: usize,
    /// Heads, which share the features.
    pub n_heads: usize,
    /// Features of a head.
    pub d_k: usize,
    /// The score of what is masked.
    pub min_float: f64,
    /// Whether a head may look nowhere.
    pub quiet_softmax: bool,
    #[module(skip)]
    all: Fusion,
    #[module(skip)]
    key_value: Fusion,
}

/// What attention must not look at.
#[derive(Debug, Clone, Default)]
pub struct AttentionMask {
    /// True for positions that are padding, `[batch, looked at]`.
    pub pad: Option<Tensor<2, Bool>>,
    /// True for pairs of positions, `[batch, looking, looked at]`, one batch for all.
    pub pairs: Option<Tensor<3, Bool>>,
}

/// A key/value cache: what positions are to those that look at them, head by head.
#[derive(Debug, Clone)]
pub struct KeyValues {
    /// `[batch, heads, positions, d_k]`, as are the values.
    key: Tensor<4>,
    value: Tensor<4>,
}

impl MultiHeadAttention {
    /// Initializes the layer.
    pub fn new(config: &MultiHeadAttentionConfig, device: &Device) -> Self {
        config.init(device).into()
    }

    /// A sequence looks at itself: one product for query, key and value.
    ///
    /// # Shapes
    /// - input: `[batch, positions, d_model]`, as is the output
    ///
    /// # Panics
    /// When the last axis is not `d_model`, or the mask is of another shape.
    pub fn self_attention(&self, input: Tensor<3>, mask: &AttentionMask) -> Tensor<3> {
        let (query, here) = self.look_and_be_seen(input);
        self.attend(query, &here, mask)
    }

    /// The next position of a sequence looks at itself and at all before it, which `seen` holds: nothing at
    /// first, one position more after each call.
    ///
    /// # Shapes
    /// - input: `[batch, 1, d_model]`, as is the output
    ///
    /// # Panics
    /// As [`Self::self_attention`], and when there are several positions: they would see what comes after them.
    pub fn self_attention_step(&self, input: Tensor<3>, seen: &mut Option<KeyValues>) -> Tensor<3> {
        assert_eq!(input.dims()[1], 1, "attention: positions of a step");
        let (query, here) = self.look_and_be_seen(input);
        let all = match seen.take() {
            Some(before) => KeyValues {
                key: Tensor::cat(vec![before.key, here.key], 2),
                value: Tensor::cat(vec![before.value, here.value], 2),
            },
            None => here,
        };
        let output = self.attend(query, &all, &AttentionMask::default());
        *seen = Some(all);
        output
    }

    /// A sequence looks at another.
    ///
    /// # Shapes
    /// - query: `[batch, positions, d_model]`, as is the output
    /// - memory: `[batch, looked at, d_model]`
    ///
    /// # Panics
    /// As [`Self::self_attention`].
    pub fn cross_attention(
        &self,
        query: Tensor<3>,
        memory: Tensor<3>,
        mask: &AttentionMask,
    ) -> Tensor<3> {
        self.look(query, &self.remember(memory), mask)
    }

    /// What a sequence is to those that look at it: one product for key and value.
    ///
    /// # Shapes
    /// - memory: `[batch, looked at, d_model]`
    ///
    /// # Panics
    /// When the last axis is not `d_model`.
    pub fn remember(&self, memory: Tensor<3>) -> KeyValues {
        let layers = [&self.key, &self.value];
        let [key, value] = self.heads(self.key_value.of(layers.into_iter()).forward(memory));
        KeyValues { key, value }
    }

    /// [`Self::cross_attention`] to a sequence that is remembered.
    ///
    /// # Shapes
    /// - query: `[batch, positions, d_model]`, as is the output
    ///
    /// # Panics
    /// As [`Self::self_attention`].
    pub fn look(&self, query: Tensor<3>, seen: &KeyValues, mask: &AttentionMask) -> Tensor<3> {
        let [query] = self.heads(self.query.forward(query));
        self.attend(query, seen, mask)
    }

    /// What positions look with, and what they are to those that look at them, in one product.
    fn look_and_be_seen(&self, input: Tensor<3>) -> (Tensor<4>, KeyValues) {
        let layers = [&self.query, &self.key, &self.value];
        let [query, key, value] = self.heads(self.all.of(layers.into_iter()).forward(input));
        (query, KeyValues { key, value })
    }

    /// `[batch, positions, N · d_model]` to N times `[batch, heads, positions, d_k]`.
    fn heads<const N: usize>(&self, x: Tensor<3>) -> [Tensor<4>; N] {
        let [batch, positions, features] = x.dims();
        assert_eq!(features, N * self.d_model, "attention: features of its input");
        std::array::from_fn(|at| {
            let part = x.clone().narrow(2, at * self.d_model, self.d_model);
            part.reshape([batch, positions, self.n_heads, self.d_k]).swap_dims(1, 2)
        })
    }

    fn attend(&self, query: Tensor<4>, seen: &KeyValues, mask: &AttentionMask) -> Tensor<3> {
        let [batch, _, looking, _] = query.dims();
        let KeyValues { key, value } = seen.clone();
        let mut scores = query.matmul(key.transpose()) / (self.d_k as f64).sqrt();
        if let Some(pad) = &mask.pad {
            let [batch, looked_at] = pad.dims();
            let pad = pad.clone().reshape([batch, 1, 1, looked_at]);
            scores = scores.mask_fill(pad, self.min_float);
        }
        if let Some(pairs) = &mask.pairs {
            let [batch, looking, looked_at] = pairs.dims();
            let pairs = pairs.clone().reshape([batch, 1, looking, looked_at]);
            scores = scores.mask_fill(pairs, self.min_float);
        }
        let weights =
            if self.quiet_softmax { quiet_softmax(scores, 3) } else { softmax(scores, 3) };
        let seen = self.dropout.forward(weights).matmul(value);
        self.output.forward(seen.swap_dims(1, 2).reshape([batch, looking, self.d_model]))
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
            all: Fusion::default(),
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
            .optional()
    }
}
