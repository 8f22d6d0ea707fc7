use burn::module::{ModuleVisitor, Param};
use burn::tensor::Tensor;

/// Reads every parameter. Parameters draw their random values on first read, which must happen in a fixed order.
pub(crate) struct Initialize;

impl ModuleVisitor for Initialize {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}
