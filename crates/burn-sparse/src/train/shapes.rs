//! Check that a plan is for a model.

use burn::module::Module;

use super::TrainError;
use crate::params::parameters;
use crate::prune::Plan;

/// Refuses a model that lacks one of a plan's weights, or has it in another shape.
pub(crate) fn refuse_other_shapes<M: Module>(plan: &Plan, model: &M) -> Result<(), TrainError> {
    let parameters = parameters(model);
    let has = |name: &str| parameters.iter().any(|parameter| parameter.name == name);
    if let Some(lost) = plan.weights.iter().find(|weight| !has(&weight.name)) {
        return Err(TrainError::Unmasked { name: lost.name.clone() });
    }
    for parameter in parameters {
        // The values of a packed weight have a shape of their own.
        if parameter.reparameterization.is_some() {
            continue;
        }
        let planned = plan.weights.iter().find(|weight| weight.name == parameter.name);
        let Some(planned) = planned else { continue };
        let expected = planned.view.stored_shape();
        if expected != parameter.shape {
            let (name, found) = (parameter.name, parameter.shape);
            return Err(TrainError::Shape { name, expected, found });
        }
    }
    Ok(())
}
