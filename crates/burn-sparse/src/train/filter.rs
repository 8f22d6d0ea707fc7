use std::collections::BTreeMap;

use burn::module::{Module, ModuleVisitor, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_sparse_kernels::{drawn, masked};

use super::attract::lasso;
use super::gather::{MaskTensors, states};
use crate::modules::Path;
use crate::plan::{Plan, PlannedWeight};

/// Masks the gradients of weights that may not come back, or whose masks are final; adds what draws the
/// others to their pattern, with `draw`.
pub(super) fn filter<M: Module>(
    module: &M,
    plan: &Plan,
    step: usize,
    grads: GradientsParams,
    draw: bool,
) -> GradientsParams {
    let action = |weight: &'_ PlannedWeight| match (weight.decay, weight.attract) {
        _ if weight.regrow.is_hard() || step >= weight.schedule.end => Some(Action::Mask),
        (0.0, 0.0) => None,
        _ if !draw => None,
        _ => Some(Action::Draw),
    };
    let weights = plan.weights.iter();
    let actions: BTreeMap<&str, (&PlannedWeight, Action)> =
        weights.filter_map(|w| Some((w.name.as_str(), (w, action(w)?)))).collect();
    if actions.is_empty() {
        return grads;
    }
    let (path, states) = (Path::default(), states(module));
    let mut filter = Filter { path, step, states, actions, grads };
    module.visit(&mut filter);
    filter.grads
}

/// What happens to the gradient of a weight.
#[derive(Clone, Copy)]
enum Action {
    /// Dropped weights get none.
    Mask,
    /// Dropped weights get theirs, and what draws them to zero; vectors what draws them together.
    Draw,
}

struct Filter<'a> {
    path: Path,
    step: usize,
    states: BTreeMap<String, MaskTensors>,
    actions: BTreeMap<&'a str, (&'a PlannedWeight, Action)>,
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
        let Some(&(weight, action)) = self.actions.get(name.as_str()) else { return };
        let Some(MaskTensors { keep, row_order }) = self.states.remove(&name) else { return };
        let Some(grad) = self.grads.remove::<D>(param.id) else { return };
        let device = grad.device();
        let keep = keep.inner().to_device(&device);
        let grad = match action {
            Action::Mask => masked(grad, keep),
            Action::Draw => {
                let base = param.base().inner().to_device(&device);
                let mut grad = match weight.decay {
                    0.0 => grad,
                    decay => drawn(grad, base.clone(), keep, decay as f32),
                };
                // Until something is dropped there are no groups.
                let grouped = weight.attract > 0.0 && weight.schedule.sparsity(self.step) > 0.0;
                if let Some(vector) = weight.pattern.vector().filter(|_| grouped) {
                    let order = row_order.inner().to_device(&device);
                    grad = grad + lasso(base, order, &weight.view, vector) * weight.attract;
                }
                grad
            }
        };
        self.grads.register(param.id, grad);
    }
}
