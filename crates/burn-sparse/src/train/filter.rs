use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::{Int, Tensor};
use burn_sparse_kernels::{drawn, masked};

use super::gather::keeps;
use crate::modules::Path;
use crate::plan::{Plan, PlannedWeight};

/// Masks the gradients of weights that may not come back, or whose masks are final, and, with `draw`,
/// draws dropped weights that may to zero.
pub(super) fn filter<M: Module>(
    module: &M,
    plan: &Plan,
    step: usize,
    grads: GradientsParams,
    draw: bool,
) -> GradientsParams {
    let action = |weight: &PlannedWeight| match weight.decay {
        _ if weight.regrow.is_hard() || step >= weight.schedule.end => Some(Action::Mask),
        decay if decay == 0.0 || !draw => None,
        decay => Some(Action::Decay(decay)),
    };
    let weights = plan.weights.iter();
    let actions: BTreeMap<&str, Action> =
        weights.filter_map(|w| Some((w.name.as_str(), action(w)?))).collect();
    if actions.is_empty() {
        return grads;
    }
    let mut filter = Filter { path: Path::default(), keeps: keeps(module), actions, grads };
    module.visit(&mut filter);
    filter.grads
}

/// What happens to the gradient of a weight.
#[derive(Clone, Copy)]
enum Action {
    /// Dropped weights get none.
    Mask,
    /// Dropped weights get theirs, and this times their value.
    Decay(f64),
}

struct Filter<'a> {
    path: Path,
    keeps: BTreeMap<String, Tensor<1, Int>>,
    actions: BTreeMap<&'a str, Action>,
    grads: GradientsParams,
}

impl ModuleVisitor for Filter<'_> {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let name = self.path.name();
        let Some(action) = self.actions.get(name.as_str()) else { return };
        if let Some(keep) = self.keeps.remove(&name)
            && let Some(grad) = self.grads.remove::<D>(param.id)
        {
            let keep = keep.inner().to_device(&grad.device());
            let grad = match *action {
                Action::Mask => masked(grad, keep),
                Action::Decay(decay) => {
                    let weight = param.base().inner().to_device(&grad.device());
                    drawn(grad, weight, keep, decay as f32)
                }
            };
            self.grads.register(param.id, grad);
        }
    }
}
