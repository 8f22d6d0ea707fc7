use std::collections::BTreeMap;

use burn::module::{Module, ModuleMapper, Param};
use burn::tensor::Tensor;
use burn_sparse_kernels::masked;

use super::gather::{MaskTensors, edit_leaf, states};
use crate::modules::Path;
use crate::plan::Plan;

/// Makes dropped weights that do not learn zero again: momentum, or an optimizer that mixes all weights of a
/// matrix, moves them although they have no gradient.
pub(super) fn settle<M: Module>(module: M, plan: &Plan) -> M {
    let hard = plan.weights.iter().filter(|weight| weight.regrow.is_hard());
    let names: Vec<&str> = hard.map(|weight| weight.name.as_str()).collect();
    if names.is_empty() {
        return module;
    }
    let mut states = states(&module);
    states.retain(|name, _| names.contains(&name.as_str()));
    module.map(&mut Settle { path: Path::default(), states })
}

struct Settle {
    path: Path,
    states: BTreeMap<String, MaskTensors>,
}

impl ModuleMapper for Settle {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(state) = self.states.remove(&self.path.name()) else { return param };
        let (id, weight, mapper) = param.consume();
        let weight = edit_leaf(id, weight, |weight| {
            let keep = state.keep.inner().to_device(&weight.device());
            masked(weight, keep)
        });
        Param::from_mapped_value(id, weight, mapper)
    }
}
