use burn::module::{Module, ModuleVisitor, Param, ParamId};
use burn::tensor::Tensor;

use super::Path;

/// A float parameter of a module.
#[derive(Debug, Clone)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) layer: String,
    pub(crate) id: ParamId,
    pub(crate) shape: Vec<usize>,
    /// Whether a reparameterization hangs on it already, and its name.
    pub(crate) reparameterization: Option<String>,
}

/// All float parameters in the order of the module's fields, the state of reparameterizations left
/// out.
pub(crate) fn parameters<M: Module>(module: &M) -> Vec<Parameter> {
    let mut census = Census::default();
    module.visit(&mut census);
    census.found
}

#[derive(Default)]
struct Census {
    path: Path,
    inside: usize,
    found: Vec<Parameter>,
}

impl ModuleVisitor for Census {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
        if self.inside > 0 || kind == "Reparameterization" {
            if self.inside == 0
                && let Some(base) = self.found.last_mut()
            {
                base.reparameterization = Some(name.into());
            }
            self.inside += 1;
        }
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
        self.inside = self.inside.saturating_sub(1);
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.inside == 0 {
            self.found.push(Parameter {
                name: self.path.name(),
                layer: self.path.layer().into(),
                id: param.id,
                shape: param.lazy_shape().to_vec(),
                reparameterization: None,
            });
        }
    }
}
