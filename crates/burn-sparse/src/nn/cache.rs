//! Caches for autoregressive inference.

use burn::tensor::Tensor;

/// Cache of a layer's output over the positions of a sequence, like burn-nn's `TensorCache`.
#[derive(Debug, Default)]
pub struct TensorCache<const D: usize>(Option<Tensor<D>>);

impl<const D: usize> TensorCache<D> {
    /// Creates an empty cache.
    pub fn empty() -> Self {
        Self(None)
    }

    /// Applies `layer` to the last position of `input [batch, positions, features]` and appends the result along `axis` to the
    /// cached output; if the cache is empty, applies `layer` to all positions.
    pub(super) fn forward_autoregressive(
        &mut self,
        input: Tensor<3>,
        axis: usize,
        layer: impl FnOnce(Tensor<3>) -> Tensor<D>,
    ) -> Tensor<D> {
        let output = match self.0.take() {
            Some(before) => {
                let last = input.dims()[1] - 1;
                Tensor::cat(vec![before, layer(input.narrow(1, last, 1))], axis)
            }
            None => layer(input),
        };
        self.0 = Some(output.clone());
        output
    }

    /// Applies `layer` once, and returns the cached output from then on.
    pub(super) fn forward_full(
        &mut self,
        input: Tensor<3>,
        layer: impl FnOnce(Tensor<3>) -> Tensor<D>,
    ) -> Tensor<D> {
        self.0.get_or_insert_with(|| layer(input)).clone()
    }
}
