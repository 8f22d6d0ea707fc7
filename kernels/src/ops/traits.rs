use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

use crate::packed::{PackedPrimitive, Spec};

/// Products with packed weights, their gradients, and masks on a Burn backend.
///
/// `W [rows, cols]` is packed in the layout of [`Spec::shape`]. Shapes: `x [n, cols]`, `y [n, rows]`, `bias [rows]`, or
/// `[0]` for none. Use [`sparse_linear`](crate::sparse_linear), which checks tensors before a kernel sees them.
#[backend_extension(
    Flex,
    Cube: cfg(feature = "cubecl-backend"),
    Autodiff,
    Fusion: cfg(feature = "fusion"),
)]
pub trait SparseOps: Backend {
    /// Computes `y = activation(x · Wᵀ + bias)`.
    #[fusion(dtype = x, shape = burn::tensor::Shape::new([x[0], spec.shape.rows]))]
    fn sparse_linear(
        x: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        #[extension_type] weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// Computes `dx = dy · W`, the gradient with respect to the input.
    #[fusion(dtype = dy, shape = burn::tensor::Shape::new([dy[0], spec.shape.cols]))]
    fn sparse_linear_dx(
        dy: FloatTensor<Self>,
        #[extension_type] weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// Computes the gradient with respect to the kept values, in their layout: `dyᵀ · x` at the kept entries.
    #[fusion(dtype = x, shape = burn::tensor::Shape::new(spec.shape.layout.values_shape(spec.shape.stored)))]
    fn sparse_linear_dw(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        #[extension_type] weight: PackedPrimitive<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// Computes `weight · mask` for a byte mask with as many elements. The gradient passes straight through (Bengio et
    /// al., 2013): the training loop decides which weights it updates.
    #[fusion(dtype = weight, shape = weight.clone())]
    fn apply_mask(weight: FloatTensor<Self>, mask: IntTensor<Self>) -> FloatTensor<Self>;

    /// Computes `grad + factor · weight` where the byte of the mask is zero, and `grad` elsewhere.
    #[fusion(dtype = grad, shape = grad.clone())]
    fn decay_dropped(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: IntTensor<Self>,
        factor: f32,
    ) -> FloatTensor<Self>;
}
