use burn::module::{Module, Param, ParamId};
use burn::tensor::Tensor;

use super::{Path, VisitParams, visit_params};

/// A float parameter of a module.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) layer: String,
    pub(crate) id: ParamId,
    pub(crate) shape: Vec<usize>,
    /// Name of the reparameterization attached to it, if any.
    pub(crate) reparameterization: Option<String>,
}

/// Lists all float parameters in the order of the module's fields, without the state of reparameterizations.
pub(crate) fn parameters<M: Module>(module: &M) -> Vec<Parameter> {
    let mut census = Census::default();
    visit_params(module, &mut census);
    census.0
}

#[derive(Default)]
struct Census(Vec<Parameter>);

impl VisitParams for Census {
    fn enter(&mut self, path: &Path) {
        // The state of a reparameterization follows the parameter that it belongs to.
        if let (Some(name), Some(parameter)) = (path.reparameterization(), self.0.last_mut()) {
            parameter.reparameterization = Some(name.into());
        }
    }

    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        if path.reparameterization().is_none() {
            self.0.push(Parameter {
                name: path.name(),
                layer: path.layer().into(),
                id: param.id,
                shape: param.lazy_shape().to_vec(),
                reparameterization: None,
            });
        }
    }
}
