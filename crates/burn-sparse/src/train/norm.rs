//! Norm of the gradients that a step uses.

use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::optim::GradientsParams;
use burn::tensor::Tensor;
use burn_sparse_kernels::apply_mask;

use super::filter::ignores_dropped;
use super::state::{MaskTensors, mask_tensors};
use super::{Sparse, TrainError};
use crate::params::{Path, VisitParams, visit_params};

impl<M: Module> Sparse<M> {
    /// Returns the L2 norm of all gradients together, to clip them by. Gradients of dropped weights that do not learn are left
    /// out, because [`Self::optimizer_step`] does not use them; penalties, which it adds, are not included.
    ///
    /// # Errors
    /// Returns an error when the device cannot return the step.
    pub fn gradient_norm(&self, grads: &GradientsParams) -> Result<f64, TrainError> {
        let step = self.step()?;
        let mut masks = mask_tensors(self.inner());
        for weight in &self.plan().weights {
            if !ignores_dropped(weight, step) {
                masks.remove(&weight.name);
            }
        }
        let mut norm = Norm { masks, grads, squares: 0.0 };
        visit_params(self.inner(), &mut norm);
        Ok(norm.squares.sqrt())
    }
}

struct Norm<'a> {
    /// Masks of the weights whose dropped weights do not learn.
    masks: BTreeMap<String, MaskTensors>,
    grads: &'a GradientsParams,
    squares: f64,
}

impl VisitParams for Norm<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: &Param<Tensor<D>>) {
        let Some(mut grad) = self.grads.get::<D>(param.id) else { return };
        if let Some(MaskTensors { keep, .. }) = self.masks.remove(&path.name()) {
            let keep = keep.inner().to_device(&grad.device());
            grad = apply_mask(grad, keep);
        }
        let square = (grad.clone() * grad).sum().into_data().convert::<f64>();
        self.squares += square.iter::<f64>().sum::<f64>();
    }
}
