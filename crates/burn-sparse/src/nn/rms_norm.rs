use burn::nn::RmsNorm;
use burn::tensor::Tensor;

/// Applies a [`RmsNorm`], in one pass on the CPU without autodiff.
///
/// # Shapes
/// - `x` and the output: `[..., d_model]`
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse::nn::{RmsNormConfig, rms_norm};
///
/// let device = Device::flex();
/// let norm = RmsNormConfig::new(4).init(&device);
/// assert_eq!(rms_norm(&norm, Tensor::<3>::ones([2, 3, 4], &device)).dims(), [2, 3, 4]);
/// ```
///
/// # Panics
/// Panics if the last axis of `x` is not `d_model`.
pub fn rms_norm<const D: usize>(norm: &RmsNorm, x: Tensor<D>) -> Tensor<D> {
    if x.is_autodiff() {
        return norm.forward(x);
    }
    let found = burn_sparse_kernels::rms_norm(&x, &norm.gamma.val(), norm.epsilon);
    found.unwrap_or_else(|| norm.forward(x))
}
