use burn::module::{Module, Param, ParamId, Reparameterization, Reparameterizer};
use burn::tensor::{Int, Tensor};
use burn_sparse_kernels::apply_mask;

use crate::params::{ids, mask_bytes};
use crate::prune::PlannedWeight;

/// Mask on a weight: layers read `weight · mask`, and the gradient passes straight through. [`Sparse`](super::Sparse) decides
/// which weights the gradient updates.
///
/// The mask is recorded with the module, so that a resumed run has the same masks and row orders.
#[derive(Module, Debug)]
pub struct Masked {
    /// One byte for each weight, in the order the layer stores them.
    keep: Param<Tensor<1, Int>>,
    /// Row at every position; only `shfl-bw` and `hinm` permute rows.
    row_order: Param<Tensor<1, Int>>,
    /// `true` if dropped weights are stored as zeros, because they do not learn. The mask need not be applied then.
    #[module(skip)]
    stored_zeros: bool,
}

impl Reparameterization for Masked {
    const NAME: &'static str = "masked";

    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        if self.stored_zeros { base } else { apply_mask(base, self.keep.val()) }
    }
}

/// Attaches a mask that keeps everything to every planned weight.
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
        let keep = mask_bytes(vec![1; weight.view.rows() * weight.view.cols()], &device);
        let order = ids((0..weight.view.rows() as u32).collect(), &device);
        let masked = Masked {
            keep: Param::initialized(ParamId::new(), keep),
            row_order: Param::initialized(ParamId::new(), order),
            stored_zeros: weight.regrow.is_hard(),
        };
        (param, Some(masked))
    }
}
