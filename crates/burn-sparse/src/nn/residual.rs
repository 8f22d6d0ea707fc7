use burn::nn::Dropout;
use burn::tensor::Tensor;

/// Residual block with dropout, normalized before (`x + block(norm(x))`) or after (`norm(x + block(x))`).
pub(super) fn residual(
    x: Tensor<3>,
    norm_first: bool,
    dropout: &Dropout,
    norm: impl FnOnce(Tensor<3>) -> Tensor<3>,
    block: impl FnOnce(Tensor<3>) -> Tensor<3>,
) -> Tensor<3> {
    match norm_first {
        true => x.clone() + dropout.forward(block(norm(x))),
        false => norm(x.clone() + dropout.forward(block(x))),
    }
}
