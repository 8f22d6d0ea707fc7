use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_sparse_kernels::{apply_mask, decay_dropped};

use super::group_lasso::group_lasso;
use super::state::{MaskTensors, mask_tensors};
use crate::params::{Path, VisitParams, visit_params};
use crate::prune::{Plan, PlannedWeight};

/// Masks the gradients of weights that may not come back or whose masks are final. With `penalize`, adds the gradients
/// of the decay and of the group lasso to the others.
pub(super) fn filter<M: Module>(
    module: &M,
    plan: &Plan,
    step: usize,
    grads: GradientsParams,
    penalize: bool,
) -> GradientsParams {
    let action = |weight: &'_ PlannedWeight| match (weight.decay, weight.attract) {
        _ if ignores_dropped(weight, step) => Some(Action::Mask),
        (0.0, 0.0) => None,
        _ if !penalize => None,
        _ => Some(Action::Penalize),
    };
    let weights = plan.weights.iter();
    let actions: BTreeMap<&str, (&PlannedWeight, Action)> =
        weights.filter_map(|w| Some((w.name.as_str(), (w, action(w)?)))).collect();
    if actions.is_empty() {
        return grads;
    }
    let mut filter = Filter { step, masks: mask_tensors(module), actions, grads };
    visit_params(module, &mut filter);
    filter.grads
}

/// Returns `true` if a step leaves the dropped weights of a parameter at zero.
pub(super) fn ignores_dropped(weight: &PlannedWeight, step: usize) -> bool {
    weight.regrow.is_hard() || step >= weight.schedule.end
}

/// Treatment of a weight's gradient.
#[derive(Clone, Copy)]
enum Action {
    /// Zeroes the gradient of dropped weights.
    Mask,
    /// Adds the gradient of the weight's penalties.
    Penalize,
}

struct Filter<'a> {
    step: usize,
    masks: BTreeMap<String, MaskTensors>,
    actions: BTreeMap<&'a str, (&'a PlannedWeight, Action)>,
    grads: GradientsParams,
}

impl VisitParams for Filter<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let name = path.name();
        let Some(&(weight, action)) = self.actions.get(name.as_str()) else { return };
        let Some(MaskTensors { keep, row_order }) = self.masks.remove(&name) else { return };
        let Some(grad) = self.grads.remove::<D>(param.id) else { return };
        let device = grad.device();
        let keep = keep.inner().to_device(&device);
        let grad = match action {
            Action::Mask => apply_mask(grad, keep),
            Action::Penalize => {
                let base = param.base().inner().to_device(&device);
                let mut grad = match weight.decay {
                    0.0 => grad,
                    decay => decay_dropped(grad, base.clone(), keep, decay as f32),
                };
                // Groups form when the first weights are dropped.
                let grouped = weight.attract > 0.0 && weight.schedule.sparsity(self.step) > 0.0;
                if let Some(vector) = weight.pattern.vector().filter(|_| grouped) {
                    let order = row_order.inner().to_device(&device);
                    grad = grad + group_lasso(base, order, &weight.view, vector) * weight.attract;
                }
                grad
            }
        };
        self.grads.register(param.id, grad);
    }
}
