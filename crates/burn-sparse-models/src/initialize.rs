use burn::module::{ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Reads every parameter: they draw their values when they are first read, and are to do so in one fixed
/// order.
pub(crate) struct Initialize;

impl ModuleVisitor for Initialize {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}
