//! Activations as separate operations, where no kernel applies them.

use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn_sparse_cpu::Activation;

use crate::dense::gelu;

/// Applies the activation as a separate operation.
pub fn activate<const D: usize>(y: Tensor<D>, activation: Activation) -> Tensor<D> {
    match activation {
        Activation::None => y,
        Activation::Relu => relu(y),
        Activation::Gelu => gelu(y),
    }
}
