//! Activations as operations of their own, where no kernel applies them.

use burn::tensor::Tensor;
use burn::tensor::activation::relu;

use crate::dense::gelu;
use crate::layout::Activation;

impl Activation {
    /// Applies the activation as a separate operation.
    pub fn apply<const D: usize>(self, y: Tensor<D>) -> Tensor<D> {
        match self {
            Self::None => y,
            Self::Relu => relu(y),
            Self::Gelu => gelu(y),
        }
    }
}
