use burn::tensor::Tensor;

/// Returns a tensor without autodiff as a constant of the graph of `of`.
pub(crate) fn constant<const D: usize, const E: usize>(
    value: Tensor<D>,
    of: &Tensor<E>,
) -> Tensor<D> {
    let constant = Tensor::from_inner(value);
    match of.gradient_checkpointing_strategy() {
        // All tensors of an operation must share a graph.
        Some(strategy) => constant.with_gradient_checkpointing_strategy(strategy),
        None => constant,
    }
}
