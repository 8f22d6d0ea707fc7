use burn::nn::BatchNorm;
use burn::tensor::Tensor;
use burn::tensor::activation::relu;
use burn_sparse_kernels as kernels;

/// `relu(norm(x) + shortcut)` with burn-nn's batch normalization: in training on the CPU one operator, where Burn makes
/// some twenty passes. The layer and its record stay burn-nn's.
///
/// # Shapes
/// - `x`, `shortcut` and the output: `[batch, channels, height, width]`
///
/// # Panics
/// When shapes do not fit.
pub fn batch_norm_relu(norm: &BatchNorm, x: Tensor<4>, shortcut: Option<&Tensor<4>>) -> Tensor<4> {
    // As burn-nn: a frozen layer keeps its statistics, and goes by them.
    if x.is_autodiff() && norm.training.is_enabled() {
        let (gamma, beta) = (norm.gamma.val(), norm.beta.val());
        if let Some(found) = kernels::batch_norm_relu(&x, &gamma, &beta, norm.epsilon, shortcut) {
            for (running, of_batch) in
                [(&norm.running_mean, found.mean), (&norm.running_var, found.variance)]
            {
                let old = running.value_sync().to_device(&x.device());
                let new = old * (1.0 - norm.momentum) + of_batch * norm.momentum;
                running.update(new.detach());
            }
            return found.output;
        }
    }
    let y = norm.forward(x);
    relu(match shortcut {
        Some(shortcut) => y + shortcut.clone(),
        None => y,
    })
}
