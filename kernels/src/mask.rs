use burn::backend::Dispatch;
use burn::tensor::{DType, Device, Int, Tensor};

use crate::ops::SparseOps;

/// Computes `weight · mask` for a flat byte mask in the order of the stored weight. The gradient passes straight through to
/// `weight`.
///
/// # Panics
/// Panics if the mask has a different number of elements, or is not of type `u8`.
pub fn apply_mask<const D: usize>(weight: Tensor<D>, mask: Tensor<1, Int>) -> Tensor<D> {
    check_mask(&weight, &mask);
    let masked = <Dispatch as SparseOps>::apply_mask(weight.into_dispatch(), mask.into_dispatch());
    Tensor::from_dispatch(masked)
}

/// Computes `grad + factor · weight` where the flat byte mask drops the weight, and `grad` elsewhere: weight decay of dropped
/// weights (SR-STE, Zhou et al., 2021).
///
/// # Panics
/// Panics if shapes differ, if autodiff tracks a tensor, or if the mask has a different number of elements or is not of type
/// `u8`.
pub fn decay_dropped<const D: usize>(
    grad: Tensor<D>,
    weight: Tensor<D>,
    mask: Tensor<1, Int>,
    factor: f32,
) -> Tensor<D> {
    assert_eq!(grad.dims(), weight.dims(), "decay_dropped: a gradient of the weight's shape");
    check_mask(&grad, &mask);
    check_mask(&weight, &mask);
    assert!(
        !grad.is_autodiff() && !weight.is_autodiff(),
        "decay_dropped: tensors without autodiff"
    );
    let [grad, weight] = [grad, weight].map(Tensor::into_dispatch);
    let decayed =
        <Dispatch as SparseOps>::decay_dropped(grad, weight, mask.into_dispatch(), factor);
    Tensor::from_dispatch(decayed)
}

fn check_mask<const D: usize>(weight: &Tensor<D>, mask: &Tensor<1, Int>) {
    let elements = weight.shape().num_elements();
    assert_eq!(mask.dims(), [elements], "mask: one byte for each of {elements} weights");
    assert_eq!(mask.dtype(), DType::U8, "mask: masks are bytes");
    if weight.device().inner() == Device::flex() {
        assert_eq!(weight.dtype(), DType::F32, "mask: weights on the CPU are f32");
    }
}
