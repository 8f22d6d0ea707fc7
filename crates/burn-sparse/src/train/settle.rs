use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::Tensor;
use burn_sparse_kernels::apply_mask;

use super::state::{MaskTensors, mask_tensors};
use crate::params::{MapParams, Path, edit_leaf, map_params};
use crate::prune::Plan;

/// Zeroes dropped weights that do not learn after an optimizer step: momentum, or an optimizer that mixes all weights of
/// a matrix, moves them although they have no gradient.
pub(super) fn settle<M: Module>(module: M, plan: &Plan) -> M {
    let hard = plan.weights.iter().filter(|weight| weight.regrow.is_hard());
    let names: Vec<&str> = hard.map(|weight| weight.name.as_str()).collect();
    if names.is_empty() {
        return module;
    }
    let mut masks = mask_tensors(&module);
    masks.retain(|name, _| names.contains(&name.as_str()));
    map_params(module, &mut Settle(masks))
}

struct Settle(BTreeMap<String, MaskTensors>);

impl MapParams for Settle {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let Some(mask) = self.0.remove(&path.name()) else { return param };
        let (id, weight, mapper) = param.consume();
        let weight = edit_leaf(id, weight, |weight| {
            let keep = mask.keep.inner().to_device(&weight.device());
            apply_mask(weight, keep)
        });
        Param::from_mapped_value(id, weight, mapper)
    }
}
