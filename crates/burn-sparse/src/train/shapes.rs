//! Check that a plan is for a model.

use burn::module::Module;

use super::TrainError;
use crate::params::parameters;
use crate::prune::Plan;

/// Refuses a model whose parameters have other shapes than a plan's weights of the same names. Missing ones are reported where they
/// are read.
pub(crate) fn refuse_other_shapes<M: Module>(plan: &Plan, model: &M) -> Result<(), TrainError> {
    for parameter in parameters(model) {
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
