use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, backend_extension};

use crate::Spec;

/// The packed linear operator and its gradients on a Burn backend.
///
/// `W [rows, cols]` is packed as [`Spec::layout`](crate::Layout) says. Shapes: `x [n, cols]`,
/// `y [n, rows]`, `bias [rows]` or `[0]` for none. Callers go through
/// [`sparse_linear`](crate::sparse_linear), which refuses tensors that contradict the spec before a
/// kernel sees them.
#[backend_extension(
    Flex,
    Cube: cfg(feature = "cubecl-backend"),
    Autodiff,
    Fusion: cfg(feature = "fusion"),
)]
pub trait SparseOps: Backend {
    /// `y = activation(x · Wᵀ + bias)`.
    #[fusion(dtype = x, shape = burn::tensor::Shape::new([x[0], spec.rows]))]
    #[allow(clippy::too_many_arguments)]
    fn sparse_linear(
        x: FloatTensor<Self>,
        values: FloatTensor<Self>,
        bias: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// `dx = dy · W`, the gradient with respect to the input.
    #[fusion(dtype = dy, shape = burn::tensor::Shape::new([dy[0], spec.cols]))]
    fn sparse_linear_dx(
        dy: FloatTensor<Self>,
        values: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// The gradient with respect to the kept values only, in their layout: `dyᵀ · x` at the kept entries.
    #[fusion(dtype = x, shape = burn::tensor::Shape::new(spec.layout.values_shape(index.num_elements())))]
    fn sparse_linear_dw(
        x: FloatTensor<Self>,
        dy: FloatTensor<Self>,
        index: IntTensor<Self>,
        offsets: IntTensor<Self>,
        order: IntTensor<Self>,
        spec: Spec,
    ) -> FloatTensor<Self>;

    /// `weight · mask` for a byte mask of as many elements; the gradient passes straight through
    /// (Bengio et al., 2013), so that whoever steps the optimizer decides which weights act on it.
    #[fusion(dtype = weight, shape = weight.clone())]
    fn masked(weight: FloatTensor<Self>, mask: IntTensor<Self>) -> FloatTensor<Self>;

    /// `grad + factor · weight` where the byte of the mask is zero, `grad` elsewhere.
    #[fusion(dtype = grad, shape = grad.clone())]
    fn drawn(
        grad: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: IntTensor<Self>,
        factor: f32,
    ) -> FloatTensor<Self>;
}
