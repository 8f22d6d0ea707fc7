//! Check that a plan is for a model.

use burn::module::{Module, Param};
use burn::tensor::{DType, Device, Tensor};

use super::TrainError;
use crate::params::{Path, VisitParams, parameters, visit_params};
use crate::prune::Plan;

/// Refuses a model that lacks one of a plan's weights, or has it in another shape, or in a form or type that cannot be masked.
pub(crate) fn refuse_other_shapes<M: Module>(plan: &Plan, model: &M) -> Result<(), TrainError> {
    let parameters = parameters(model);
    let has = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    if let Some(lost) = plan.weights.iter().find(|weight| !has(&weight.name)) {
        return Err(TrainError::Unmasked { name: lost.name.clone() });
    }
    for parameter in parameters {
        let planned = plan.weights.iter().find(|weight| weight.name == parameter.name);
        let Some(planned) = planned else { continue };
        let name = parameter.name;
        if let Some(found) = parameter.reparameterization {
            return Err(TrainError::Reparameterized { name, found });
        }
        let (expected, found) = (planned.view.stored_shape(), parameter.shape);
        if expected != found {
            return Err(TrainError::Shape { name, expected, found });
        }
    }
    let mut types = Types { plan, other: None };
    visit_params(model, &mut types);
    match types.other {
        Some((name, found)) => Err(TrainError::Type { name, found }),
        None => Ok(()),
    }
}

/// Finds a planned weight that is not in the type of the CPU's masks.
struct Types<'a> {
    plan: &'a Plan,
    other: Option<(String, DType)>,
}

impl VisitParams for Types<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let name = path.name();
        let planned = self.plan.weights.iter().any(|weight| weight.name == name);
        if planned && param.lazy_device().inner() == Device::flex() {
            let found = param.base().dtype();
            if found != DType::F32 {
                self.other.get_or_insert((name, found));
            }
        }
    }
}
