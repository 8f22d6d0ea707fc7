use super::bf16_state::Bf16AdamW;
use crate::recipe::{OptimizerConfig, StateType};
use burn::optim::decay::WeightDecayConfig;
use burn::optim::momentum::MomentumConfig;
use burn::optim::{AdamWConfig, ModuleOptimizer, SgdConfig};

/// Creates the optimizer of a recipe.
pub(super) fn optimizer(spec: &OptimizerConfig) -> ModuleOptimizer {
    match *spec {
        OptimizerConfig::AdamW { weight_decay, state, .. } => {
            let config = AdamWConfig::new().with_weight_decay(weight_decay as f32);
            match state {
                StateType::F32 => config.init(),
                StateType::Bf16 => ModuleOptimizer::from(Bf16AdamW { exact: config.build() }),
            }
        }
        OptimizerConfig::Sgd { momentum, weight_decay, .. } => {
            let momentum =
                (momentum > 0.0).then(|| MomentumConfig { momentum, ..MomentumConfig::new() });
            let decay = (weight_decay > 0.0).then(|| WeightDecayConfig::new(weight_decay as f32));
            SgdConfig::new().with_momentum(momentum).with_weight_decay(decay).init()
        }
    }
}
