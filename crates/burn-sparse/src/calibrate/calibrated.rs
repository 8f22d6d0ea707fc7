use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use burn_sparse_pattern::format::Scales;
use serde::{Deserialize, Serialize};

use crate::params::{MapParams, Path, edit_leaf, map_params};
use crate::prune::Plan;
use crate::train::{Sparse, TrainError};

/// What calibration did to a weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CalibratedWeight {
    /// Path of the parameter.
    pub name: String,
    /// Share of zeros.
    pub sparsity: f64,
    /// Number of input vectors that were recorded: tokens, or windows of images.
    pub tokens: usize,
    /// Root mean square error of the layer's outputs, relative to that of the outputs, with the mask alone. Outputs are
    /// those that the repair aims at; of a layer with a bias, less their means.
    pub error_masked: f64,
    /// The same with the weights as they are now.
    pub error: f64,
    /// Share of the mean of the Gram matrix's diagonal that was added to it.
    pub damp: f64,
    /// Time for the mask and the repair, in seconds.
    pub seconds: f64,
}

/// Result of the reconstruction of a block.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CalibratedBlock {
    /// Number of the block, from 0.
    pub block: usize,
    /// Paths of its pruned weights.
    pub weights: Vec<String>,
    /// Root mean square error of the block's output before it was reconstructed, relative to that of its target.
    pub error_before: f64,
    /// The same with the weights as they are now.
    pub error: f64,
    /// Time of the reconstruction, in seconds.
    pub seconds: f64,
}

/// Progress of a calibration.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum CalibrationStep<'a> {
    /// A weight has been pruned.
    Weight(&'a CalibratedWeight),
    /// A block has been reconstructed.
    Block(&'a CalibratedBlock),
}

/// Masks and values of a plan's weights, found by [`Plan::calibrate`].
#[derive(Debug, Clone)]
pub struct Calibrated {
    pub(super) plan: Plan,
    /// Stored masks and row orders, by path.
    pub(super) masks: BTreeMap<String, (Vec<u8>, Vec<u32>)>,
    /// Values of weights and biases in the order in which layers store them, by path.
    pub(super) values: BTreeMap<String, Vec<f32>>,
    /// Scales of weights that are integers, by path.
    pub(super) scales: BTreeMap<String, Scales>,
    pub(super) weights: Vec<CalibratedWeight>,
    pub(super) blocks: Vec<CalibratedBlock>,
}

impl Calibrated {
    /// Returns what was done, in the order of the forward pass.
    pub fn weights(&self) -> &[CalibratedWeight] {
        &self.weights
    }

    /// Returns what reconstruction did, in the order of the forward pass; empty without it.
    pub fn blocks(&self) -> &[CalibratedBlock] {
        &self.blocks
    }

    /// Returns the scales of weights that are integers, by path, for
    /// [`Checkpoint::with_scales`](crate::checkpoint::Checkpoint::with_scales); empty if they are floats.
    pub fn scales(&self) -> &BTreeMap<String, Scales> {
        &self.scales
    }

    /// Gives a model, the one that was calibrated, the values without masks.
    pub fn apply<M: Module>(&self, model: M) -> M {
        set_values(model, &self.values)
    }

    /// Gives a model, the one that was calibrated or its autodiff twin, the values and masks. Masks do not change any more;
    /// fine-tune, or finish at once.
    ///
    /// # Errors
    /// Returns an error when `model` is not the calibrated model.
    pub fn attach<M: Module>(self, model: M) -> Result<Sparse<M>, TrainError> {
        let model = set_values(model, &self.values);
        Ok(self.plan.with_fixed_masks().attach(model)?.with_masks(self.masks))
    }
}

/// Replaces the values of parameters, by path, in the order in which layers store them.
pub(super) fn set_values<M: Module>(model: M, values: &BTreeMap<String, Vec<f32>>) -> M {
    map_params(model, &mut SetValues(values))
}

struct SetValues<'a>(&'a BTreeMap<String, Vec<f32>>);

impl MapParams for SetValues<'_> {
    fn float<const D: usize>(&mut self, path: &Path, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        let count = param.lazy_shape().num_elements();
        let Some(values) = self.0.get(&path.name()).filter(|values| values.len() == count) else {
            return param;
        };
        let (id, weight, mapper) = param.consume();
        let weight = edit_leaf(id, weight, |weight| {
            let data = TensorData::new(values.clone(), weight.shape());
            Tensor::from_data(data, (&weight.device(), weight.dtype()))
        });
        Param::from_mapped_value(id, weight, mapper)
    }
}
