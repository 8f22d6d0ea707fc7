//! Visitors and mappers that know the path of every parameter.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param};
use burn::tensor::{Int, Tensor};

use super::Path;

/// Reads the parameters of a module.
pub(crate) trait VisitParams {
    /// Called on entering a module.
    fn enter(&mut self, _path: &Path) {}

    /// Called for every float parameter.
    fn float<const D: usize>(&mut self, _path: &Path, _param: &Param<Tensor<D>>) {}

    /// Called for every integer parameter.
    fn int<const D: usize>(&mut self, _path: &Path, _param: &Param<Tensor<D, Int>>) {}
}

/// Replaces the parameters of a module.
pub(crate) trait MapParams {
    /// Maps a float parameter.
    fn float<const D: usize>(&mut self, _path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        param
    }

    /// Maps an integer parameter.
    fn int<const D: usize>(
        &mut self,
        _path: &Path,
        param: Param<Tensor<D, Int>>,
    ) -> Param<Tensor<D, Int>> {
        param
    }
}

/// Visits all parameters in the order of the module's fields.
pub(crate) fn visit_params<M: Module>(module: &M, visit: &mut impl VisitParams) {
    module.visit(&mut WithPath { path: Path::default(), inner: visit });
}

/// Maps all parameters.
pub(crate) fn map_params<M: Module>(module: M, map: &mut impl MapParams) -> M {
    module.map(&mut WithPath { path: Path::default(), inner: map })
}

struct WithPath<'a, T> {
    path: Path,
    inner: &'a mut T,
}

impl<T: VisitParams> ModuleVisitor for WithPath<'_, T> {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
        self.inner.enter(&self.path);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.inner.float(&self.path, param);
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.inner.int(&self.path, param);
    }
}

impl<T: MapParams> ModuleMapper for WithPath<'_, T> {
    fn enter_module(&mut self, name: &str, kind: &str) {
        self.path.enter(name, kind);
    }

    fn exit_module(&mut self, _name: &str, _kind: &str) {
        self.path.exit();
    }

    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.inner.float(&self.path, param)
    }

    fn map_int<const D: usize>(&mut self, param: Param<Tensor<D, Int>>) -> Param<Tensor<D, Int>> {
        self.inner.int(&self.path, param)
    }
}
