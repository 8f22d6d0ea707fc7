use crate::recipe::OptimizerConfig;
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer, SgdConfig};

/// Creates the optimizer of a recipe.
pub(super) fn optimizer(spec: &OptimizerConfig) -> ModuleOptimizer {
    match *spec {
        OptimizerConfig::AdamW { weight_decay, .. } => {
            AdamWConfig::new().with_weight_decay(weight_decay as f32).init()
        }
        OptimizerConfig::Sgd { momentum, weight_decay, .. } => {
            let momentum =
                (momentum > 0.0).then(|| MomentumConfig { momentum, ..MomentumConfig::new() });
            let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay as f32));
            SgdConfig::new().with_momentum(momentum).with_weight_decay(decay).init()
        }
    }
}
