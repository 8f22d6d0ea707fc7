use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Int, Tensor};

use crate::recipe::OptimizerConfig;

/// Returns the bytes of a model in training: its weights with their masks or indices, their gradients, and the optimizer's
/// state.
pub(super) fn trained_bytes<M: Module>(model: &M, optimizer: &OptimizerConfig) -> u64 {
    let states = match *optimizer {
        OptimizerConfig::AdamW { .. } => 2,
        OptimizerConfig::Sgd { momentum, .. } => usize::from(momentum > 0.0),
    };
    let mut bytes = Bytes { states, sum: 0 };
    model.visit(&mut bytes);
    bytes.sum
}

struct Bytes {
    states: usize,
    sum: u64,
}

impl ModuleVisitor for Bytes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let base = param.base();
        // A weight that is trained has a gradient.
        let copies = if base.is_require_grad() { 2 + self.states } else { 1 };
        self.sum += (base.shape().num_elements() * base.dtype().size() * copies) as u64;
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let value = param.val();
        self.sum += (value.shape().num_elements() * value.dtype().size()) as u64;
    }
}
