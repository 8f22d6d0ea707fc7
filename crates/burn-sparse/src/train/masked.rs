use burn::module::{Module, Param, ParamId, Reparameterization, Reparameterizer};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use burn_sparse_kernels::masked;

use crate::plan::PlannedWeight;

/// A mask on a weight: forward uses `weight · mask`, the gradient passes straight through, and
/// [`Sparse`](super::Sparse) decides which weights act on it.
///
/// Its state is recorded with the module, so a resumed run has the same masks and row orders.
#[derive(Module, Debug)]
pub struct Masked {
    /// One byte for each weight, in the order the layer stores them.
    keep: Param<Tensor<1, Int>>,
    /// The row at every place; moved only by `shfl-bw` and `hinm`.
    row_order: Param<Tensor<1, Int>>,
    /// Whether the weight is stored with its zeros, because dropped ones do not learn: then there is nothing
    /// to do when it is read.
    #[module(skip)]
    stored_zeros: bool,
}

impl Reparameterization for Masked {
    const NAME: &'static str = "masked";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        if self.stored_zeros { base } else { masked(base, self.keep.val()) }
    }
}

/// Hangs a mask that keeps everything on every planned weight.
pub(crate) struct AttachMasks<'a> {
    pub(crate) weights: &'a [PlannedWeight],
}

impl Reparameterizer for AttachMasks<'_> {
    type Reparam = Masked;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<Masked>) {
        let Some(weight) = self.weights.iter().find(|weight| weight.name == path) else {
            return (param, None);
        };
        let device = param.lazy_device();
        let keep = bytes(vec![1; weight.view.rows() * weight.view.cols()], &device);
        let order = ids((0..weight.view.rows() as u32).collect(), &device);
        let masked = Masked {
            keep: Param::initialized(ParamId::new(), keep),
            row_order: Param::initialized(ParamId::new(), order),
            stored_zeros: weight.regrow.is_hard(),
        };
        (param, Some(masked))
    }
}

pub(crate) fn bytes<const D: usize>(bytes: Vec<u8>, device: &Device) -> Tensor<D, Int> {
    let shape = [bytes.len()];
    Tensor::from_data(TensorData::new(bytes, shape), (device, DType::U8))
}

pub(crate) fn ids<const D: usize>(ids: Vec<u32>, device: &Device) -> Tensor<D, Int> {
    let ids: Vec<i32> = ids.into_iter().map(|id| id as i32).collect();
    let shape = [ids.len()];
    Tensor::from_data(TensorData::new(ids, shape), (device, DType::I32))
}
