use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Int, Tensor};

use crate::recipe::{OptimizerConfig, StateType};

/// Returns the bytes of a model in training: its weights with their masks or indices, their gradients, and the optimizer's
/// state.
pub(super) fn trained_bytes<M: Module>(model: &M, optimizer: &OptimizerConfig) -> u64 {
    let state = match *optimizer {
        OptimizerConfig::AdamW { state, .. } => 2 * state.size(),
        OptimizerConfig::Sgd { momentum, .. } if momentum > 0.0 => StateType::F32.size(),
        OptimizerConfig::Sgd { .. } => 0,
    };
    let mut bytes = Bytes { state, sum: 0 };
    model.visit(&mut bytes);
    bytes.sum
}

struct Bytes {
    /// Bytes of the optimizer's state for each element.
    state: usize,
    sum: u64,
}

impl ModuleVisitor for Bytes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let base = param.base();
        let size = base.dtype().size();
        // A weight that is trained has a gradient.
        let element = if base.is_require_grad() { 2 * size + self.state } else { size };
        self.sum += (base.shape().num_elements() * element) as u64;
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let value = param.val();
        self.sum += (value.shape().num_elements() * value.dtype().size()) as u64;
    }
}
