use burn::tensor::Tensor;

use super::cache::TensorCache;

/// Cache of [`MultiHeadAttention::forward_cache`](super::attention::MultiHeadAttention::forward_cache), like burn-nn's
/// `MhaCache`.
#[derive(Debug)]
pub struct MhaCache {
    pub(super) query: Cached<4>,
    pub(super) key: Cached<4>,
    pub(super) value: Cached<4>,
    pub(super) output: Cached<3>,
}

/// Cached output of a projection.
#[derive(Debug)]
pub(super) enum Cached<const D: usize> {
    /// Grows by one position per call, along this axis.
    Autoregressive(TensorCache<D>, usize),
    /// Computed once.
    Full(TensorCache<D>),
}

impl<const D: usize> Cached<D> {
    pub(super) fn forward(
        &mut self,
        input: Tensor<3>,
        layer: impl FnOnce(Tensor<3>) -> Tensor<D>,
    ) -> Tensor<D> {
        match self {
            Self::Autoregressive(cache, axis) => cache.forward_autoregressive(input, *axis, layer),
            Self::Full(cache) => cache.forward_full(input, layer),
        }
    }
}

impl MhaCache {
    /// Creates a cache for autoregressive self-attention.
    pub fn autoregressive() -> Self {
        let heads = || Cached::Autoregressive(TensorCache::empty(), 2);
        Self { query: heads(), key: heads(), value: heads(), output: grows() }
    }

    /// Creates a cache for autoregressive cross-attention, whose keys and values are computed once.
    pub fn autoregressive_cross_attention() -> Self {
        Self {
            query: Cached::Autoregressive(TensorCache::empty(), 2),
            key: Cached::Full(TensorCache::empty()),
            value: Cached::Full(TensorCache::empty()),
            output: grows(),
        }
    }
}

fn grows() -> Cached<3> {
    Cached::Autoregressive(TensorCache::empty(), 1)
}
