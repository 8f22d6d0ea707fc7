use burn::config::Config;
use burn::module::Module;
use burn::nn::Initializer;
use burn::tensor::activation::softmax;
use burn::tensor::{Bool, Device, Int, Tensor, assert_shape};
use burn_sparse_kernels::{Unseen, attention};

use super::fused::Fusion;
use super::key_value_cache::KeyValueCache;
use super::linear::{Linear, LinearConfig};
use super::rotary::Rotary;

/// Configuration of a [`GroupedQueryAttention`] layer.
#[derive(Config, Debug)]
pub struct GroupedQueryAttentionConfig {
    /// Size of the features.
    pub d_model: usize,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of key and value heads, a divisor of `n_heads`.
    pub n_key_value_heads: usize,
    /// Size of the features of a head.
    pub d_head: usize,
    /// `true` to add biases to the query, key and value projections.
    #[config(default = false)]
    pub bias: bool,
    /// Initializer of the parameters.
    #[config(default = "Initializer::KaimingUniform{gain:1.0/f64::sqrt(3.0), fan_out_only:false}")]
    pub initializer: Initializer,
}

impl GroupedQueryAttentionConfig {
    /// Initializes a [`GroupedQueryAttention`] layer.
    ///
    /// # Panics
    /// Panics if the key and value heads do not divide the query heads, or if `d_head` is odd.
    pub fn init(&self, device: &Device) -> GroupedQueryAttention {
        let Self { d_model, n_heads, n_key_value_heads, d_head, bias, .. } = *self;
        assert!(n_key_value_heads > 0 && n_heads.is_multiple_of(n_key_value_heads), "heads");
        assert!(d_head.is_multiple_of(2), "d_head");
        let linear = |inputs, outputs, bias| {
            let config = LinearConfig::new(inputs, outputs).with_bias(bias);
            config.with_initializer(self.initializer.clone()).init(device)
        };
        GroupedQueryAttention {
            query: linear(d_model, n_heads * d_head, bias),
            key: linear(d_model, n_key_value_heads * d_head, bias),
            value: linear(d_model, n_key_value_heads * d_head, bias),
            output: linear(n_heads * d_head, d_model, false),
            n_heads,
            n_key_value_heads,
            d_head,
            query_key_value: Fusion::default(),
        }
    }
}

/// Causal self-attention whose query heads share key and value heads (Ainslie et al., "GQA", 2023), with rotary position
/// embeddings, as in Llama. Query, key and value run as one packed matrix if their weights are [packed](super::PackedParam)
/// alike.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::Rotary;
/// use burn_sparse::nn::attention::GroupedQueryAttentionConfig;
///
/// let device = Device::flex();
/// let attention = GroupedQueryAttentionConfig::new(24, 6, 2, 4).init(&device);
/// let mut cache = None;
/// // Five positions at once, then one more.
/// let first = Rotary::new(10_000.0, 4, 0..5, &device);
/// attention.forward(Tensor::ones([1, 5, 24], &device), &first, Some(&mut cache));
/// let next = Rotary::new(10_000.0, 4, 5..6, &device);
/// let y = attention.forward(Tensor::ones([1, 1, 24], &device), &next, Some(&mut cache));
/// assert_eq!(y.dims(), [1, 1, 24]);
/// ```
#[derive(Module, Debug)]
pub struct GroupedQueryAttention {
    /// Query projection.
    pub query: Linear,
    /// Key projection.
    pub key: Linear,
    /// Value projection.
    pub value: Linear,
    /// Output projection.
    pub output: Linear,
    /// Number of query heads.
    pub n_heads: usize,
    /// Number of key and value heads.
    pub n_key_value_heads: usize,
    /// Size of the features of a head.
    pub d_head: usize,
    #[module(skip)]
    query_key_value: Fusion,
}

impl GroupedQueryAttention {
    /// Applies the layer to the next positions of a sequence: each attends to itself, to those before it, and to those in the
    /// cache, to which the new keys and values are appended. Without a cache, the sequence starts here.
    ///
    /// # Shapes
    /// - `x` and the output: `[batch, positions, d_model]`
    /// - `rotary`: for these positions
    ///
    /// # Panics
    /// Panics if shapes do not fit.
    pub fn forward(
        &self,
        x: Tensor<3>,
        rotary: &Rotary,
        mut cache: Option<&mut Option<KeyValueCache>>,
    ) -> Tensor<3> {
        let [batch, positions, _] = x.dims();
        let layers = [&self.query, &self.key, &self.value];
        let projected = self.query_key_value.of(layers.into_iter()).forward(x);
        let (queries, keys) = (self.n_heads * self.d_head, self.n_key_value_heads * self.d_head);
        assert_shape!(projected, [batch, positions, queries + 2 * keys]);
        let shared = self.n_key_value_heads;
        let all = projected.reshape([batch, positions, self.n_heads + 2 * shared, self.d_head]);
        let heads = |from, heads| all.clone().narrow(2, from, heads).swap_dims(1, 2);
        let turned = rotary.apply(heads(0, self.n_heads + shared));
        let query = turned.clone().narrow(1, 0, self.n_heads);
        let key = turned.narrow(1, self.n_heads, shared);
        let next = KeyValueCache::new(key, heads(self.n_heads + shared, shared));
        let all = match cache.as_mut().and_then(|cache| cache.take()) {
            Some(before) => before.append(next),
            None => next,
        };
        let (key, value) = (all.key(), all.value());
        if let Some(cache) = cache {
            *cache = Some(all);
        }
        self.output.forward(self.context(query, key, value))
    }

    /// Computes the attention, `[batch, heads, positions, d_head]` to `[batch, positions, heads · d_head]`.
    fn context(&self, query: Tensor<4>, key: Tensor<4>, value: Tensor<4>) -> Tensor<3> {
        let [batch, heads, positions, d_head] = query.dims();
        let [_, shared, seen, _] = key.dims();
        let unseen = Unseen { padding: None, score: f32::NEG_INFINITY, causal: true };
        if !query.is_autodiff()
            && let Some(context) = attention(&query, &key, &value, unseen)
        {
            return context;
        }
        let group = heads / shared;
        // The heads of a group read the same keys: they are rows of one product.
        let query = query * (1.0 / (d_head as f64).sqrt());
        let query = query.reshape([batch, shared, group * positions, d_head]);
        let mut scores = query.matmul(key.transpose());
        if positions > 1 {
            let mask = causal(positions, seen, &scores.device());
            let by_head = scores.reshape([batch * shared, group, positions, seen]);
            let masked = by_head.mask_fill(mask.unsqueeze::<4>(), f32::NEG_INFINITY);
            scores = masked.reshape([batch, shared, group * positions, seen]);
        }
        let context = softmax(scores, 3).matmul(value);
        let context = context.reshape([batch, heads, positions, d_head]).swap_dims(1, 2);
        context.reshape([batch, positions, heads * d_head])
    }
}

/// Returns which keys the last `positions` of `seen` positions must not see, `[positions, seen]`.
fn causal(positions: usize, seen: usize, device: &Device) -> Tensor<2, Bool> {
    let at = |range| Tensor::<1, Int>::arange(range, device);
    let query = at((seen - positions) as i64..seen as i64).reshape([positions, 1]);
    let key = at(0..seen as i64).reshape([1, seen]);
    key.expand([positions, seen]).greater(query.expand([positions, seen]))
}

#[cfg(test)]
mod tests {
    use burn::tensor::Distribution;

    use super::*;

    fn close(a: Tensor<3>, b: Tensor<3>) {
        let off = (a - b).abs().max().into_scalar::<f32>();
        assert!(off < 1e-5, "{off}");
    }

    #[test]
    fn positions_one_by_one_give_the_same_as_all_at_once() {
        let device = Device::flex();
        let layer = GroupedQueryAttentionConfig::new(24, 6, 2, 4).with_bias(true).init(&device);
        let x = Tensor::<3>::random([2, 7, 24], Distribution::Default, &device);
        let rotary = |range| Rotary::new(1e4, 4, range, &device);
        let whole = layer.forward(x.clone(), &rotary(0..7), None);
        let mut cache = None;
        for (from, to) in [(0, 3), (3, 4), (4, 5), (5, 7)] {
            let part = x.clone().narrow(1, from, to - from);
            let y = layer.forward(part, &rotary(from..to), Some(&mut cache));
            close(y, whole.clone().narrow(1, from, to - from));
        }
    }

    #[test]
    fn heads_of_a_group_share_keys_as_repeated_heads_would() {
        let device = Device::flex();
        let grouped = GroupedQueryAttentionConfig::new(16, 4, 2, 4).init(&device);
        let mut full = GroupedQueryAttentionConfig::new(16, 4, 4, 4).init(&device);
        let repeat = |layer: &Linear| {
            let weight = layer.weight.val().reshape([16, 2, 1, 4]).repeat_dim(2, 2);
            layer.weight.clone().map(|_| weight.reshape([16, 16]))
        };
        full.query = grouped.query.clone();
        full.output = grouped.output.clone();
        full.key.weight = repeat(&grouped.key);
        full.value.weight = repeat(&grouped.value);
        let x = Tensor::<3>::random([1, 5, 16], Distribution::Default, &device);
        let rotary = Rotary::new(1e4, 4, 0..5, &device);
        close(grouped.forward(x.clone(), &rotary, None), full.forward(x, &rotary, None));
    }
}
