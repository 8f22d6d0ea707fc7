use std::collections::BTreeMap;

use burn::module::{Module, Param};
use burn::tensor::{Tensor, TensorData};
use burn_sparse_pattern::format::Scales;
use serde::{Deserialize, Serialize};

use crate::params::{MapParams, Path, edit_leaf, map_params};
use crate::prune::Plan;
use crate::train::{Sparse, TrainError};

/// Result of the calibration of a weight.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CalibratedWeight {
    /// Path of the parameter.
    pub name: String,
    /// Share of zeros.
    pub sparsity: f64,
    /// Number of input vectors that were recorded: tokens, or windows of images.
    pub tokens: usize,
    /// Root mean square error of the layer's outputs with the mask alone, relative to the root mean square of the outputs that
    /// the repair aims at. Outputs of a layer whose bias is repaired are centered.
    pub error_masked: f64,
    /// The same with the resulting weights.
    pub error: f64,
    /// Damping: share of the mean of the Gram matrix's diagonal that was added to the diagonal.
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
    /// Root mean square error of the block's output before the reconstruction, relative to the root mean square of its target.
    pub error_before: f64,
    /// The same with the resulting weights.
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
    /// Values of weights and biases in the layers' storage order, by path.
    pub(super) values: BTreeMap<String, Vec<f32>>,
    /// Scales of integer weights, by path.
    pub(super) scales: BTreeMap<String, Scales>,
    pub(super) weights: Vec<CalibratedWeight>,
    pub(super) blocks: Vec<CalibratedBlock>,
}

impl Calibrated {
    /// Returns the result of every weight, in the order of the forward pass.
    pub fn weights(&self) -> &[CalibratedWeight] {
        &self.weights
    }

    /// Returns the result of every reconstructed block, in the order of the forward pass; empty without reconstruction.
    pub fn blocks(&self) -> &[CalibratedBlock] {
        &self.blocks
    }

    /// Returns the scales of integer weights, by path, for
    /// [`Checkpoint::with_scales`](crate::checkpoint::Checkpoint::with_scales); empty if the weights are floats.
    pub fn scales(&self) -> &BTreeMap<String, Scales> {
        &self.scales
    }

    /// Applies the calibrated values, without masks, to the model that was calibrated.
    pub fn apply<M: Module>(&self, model: M) -> M {
        set_values(model, &self.values)
    }

    /// Applies the calibrated values and masks to the model that was calibrated or to its autodiff counterpart. The masks no
    /// longer change; fine-tune, or finish at once.
    ///
    /// # Errors
    /// Returns an error when `model` is not the calibrated model.
    pub fn attach<M: Module>(self, model: M) -> Result<Sparse<M>, TrainError> {
        let model = set_values(model, &self.values);
        Ok(self.plan.with_fixed_masks().attach(model)?.with_masks(self.masks))
    }
}

/// Replaces the values of parameters, by path, in the layers' storage order.
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
