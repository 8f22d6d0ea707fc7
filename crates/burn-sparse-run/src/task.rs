use std::path::Path;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::{Device, Tensor};
use burn_sparse::calibrate::{CalibrateConfig, CalibrateError, Calibrated, CalibrationStep, Whole};
use burn_sparse::prune::Plan;
use burn_sparse_models::huggingface::Folder;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Metric;
use crate::hash::sha256;
use crate::recipe::{Distill, Recipe};
use crate::run_error::RunError;
use crate::task_error::TaskError;

/// Number of samples in a calibration batch.
const CALIBRATION_BATCH: usize = 64;
/// Largest number of test samples in a comparison of outputs.
const MOST_COMPARED: usize = 256;

/// Pruning in one shot, by the inputs that layers get from samples.
#[derive(Debug, Clone, Copy)]
pub struct CalibratedPruning<'a> {
    /// Indices of training samples.
    pub samples: &'a [usize],
    /// Plan of the pruning.
    pub plan: &'a Plan,
    /// Score and repair.
    pub config: &'a CalibrateConfig,
}

/// Training samples of a step.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    /// Indices of the samples.
    pub indices: &'a [usize],
    /// Seed of their augmentation (crops, mirror images), different in every epoch.
    pub draw: u64,
}

impl Samples<'_> {
    /// Returns the random generator of a sample's augmentation, which depends on the epoch and the sample only.
    pub fn random(&self, index: usize) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.draw);
        random.set_stream(index as u64);
        random
    }
}

/// Loss of a batch.
#[derive(Debug, Clone)]
pub struct Loss {
    /// Mean over the predictions, `[1]`. A loss relative to the size of the batch's outputs, such as SquareHead, depends
    /// on how a batch is divided into parts.
    pub value: Tensor<1>,
    /// Number of predictions: the weight of this batch among others of the same step.
    pub predictions: usize,
}

/// Dense model that a pruned one is distilled from.
#[derive(Debug)]
pub struct Teacher<'a, M> {
    /// Model, on a device without autodiff.
    pub model: &'a M,
    /// Weights of its losses.
    pub distill: &'a Distill,
}

/// A task: a model, its data, its loss, and its metric.
pub trait Task {
    /// Model.
    type Model: Module + ModuleDisplay;
    /// Loaded data.
    type Data;

    /// Returns the name in recipes.
    fn name(&self) -> &'static str;

    /// Loads the data from `folder`, or from the data set's own cache.
    ///
    /// # Errors
    /// Returns an error when files are missing or malformed.
    fn load(&self, folder: Option<&Path>, seed: u64) -> Result<Self::Data, RunError>;

    /// Loads the data that evaluation reads; training samples may be missing.
    ///
    /// # Errors
    /// Returns the same errors as [`Self::load`].
    fn load_test(&self, folder: Option<&Path>, seed: u64) -> Result<Self::Data, RunError> {
        self.load(folder, seed)
    }

    /// Initializes a model to train or to load a checkpoint into; seed the device first.
    fn model(&self, device: &Device) -> Self::Model;

    /// Returns the pretrained folder that [`Self::pretrained`] loads; `None` if the task trains from scratch.
    fn folder(&self) -> Option<&Folder> {
        None
    }

    /// Returns the model with its pretrained parameters, or as [`Self::model`] initializes it.
    ///
    /// # Errors
    /// Returns an error when the pretrained parameters cannot be loaded.
    fn pretrained(&self, device: &Device) -> Result<Self::Model, RunError> {
        Ok(self.model(device))
    }

    /// Rejects keys of a recipe that do not fit the task.
    ///
    /// # Errors
    /// Returns an error that names the key.
    fn check(&self, _recipe: &Recipe) -> Result<(), TaskError> {
        Ok(())
    }

    /// Returns `true` if [`Self::loss`] can compare the outputs of a teacher's layers.
    fn distills_layers(&self) -> bool {
        false
    }

    /// Returns the number of training samples, without loading the data.
    fn train_len(&self) -> usize;

    /// Rearranges the random order of an epoch's samples, for tasks whose batches are not uniformly random.
    fn arrange(
        &self,
        _data: &Self::Data,
        _order: &mut Vec<usize>,
        _batch: usize,
        _random: &mut ChaCha8Rng,
    ) {
    }

    /// Computes the loss of training samples, with that of a teacher if there is one.
    fn loss(
        &self,
        model: &Self::Model,
        data: &Self::Data,
        samples: Samples<'_>,
        teacher: Option<Teacher<'_, Self::Model>>,
        device: &Device,
    ) -> Loss;

    /// Prunes a model, which is not under autodiff, by the inputs that its layers get from training samples. By default these
    /// go through [`Self::loss`] in one block; a deep model overrides this with its own blocks. `on_step` is called after each
    /// weight, and after each block that is reconstructed.
    ///
    /// # Errors
    /// Returns the same errors as [`Plan::calibrate`].
    fn calibrate(
        &self,
        model: &Self::Model,
        data: &Self::Data,
        pruning: CalibratedPruning<'_>,
        on_step: &mut dyn FnMut(CalibrationStep<'_>),
        device: &Device,
    ) -> Result<Calibrated, CalibrateError> {
        let CalibratedPruning { samples, plan, config } = pruning;
        let batches = samples.chunks(CALIBRATION_BATCH).map(<[usize]>::to_vec).collect();
        let forward = Whole::new(|model: &Self::Model, indices: &Vec<usize>| {
            self.loss(model, data, Samples { indices, draw: 0 }, None, device);
        });
        plan.calibrate(model, &forward, batches, config, on_step)
    }

    /// Returns the SHA-256 of calibration samples, in hexadecimal. By default that of their indices, which tell them apart because
    /// a task's own data set is always the same; a task whose data the recipe chooses overrides this.
    fn calibration_hash(&self, _data: &Self::Data, samples: &[usize]) -> String {
        sha256(samples.iter().flat_map(|&index| (index as u64).to_le_bytes()))
    }

    /// Returns the number of test samples.
    fn test_len(&self, data: &Self::Data) -> usize;

    /// Returns the number of test samples whose outputs are computed at once, to compare two forms of a model and to report kernels.
    fn compared(&self, data: &Self::Data) -> usize {
        self.test_len(data).min(MOST_COMPARED)
    }

    /// Returns `true` if a lower metric is better.
    fn lower_is_better(&self) -> bool {
        false
    }

    /// Evaluates the metric on the test data.
    ///
    /// # Errors
    /// Returns an error when the model cannot process the test data.
    fn evaluate(
        &self,
        data: &Self::Data,
        model: &Self::Model,
        device: &Device,
    ) -> Result<Metric, RunError>;

    /// Returns the model's outputs for the first `samples` test samples, flat, for comparing two forms of a model.
    fn outputs(
        &self,
        data: &Self::Data,
        model: &Self::Model,
        samples: usize,
        device: &Device,
    ) -> Vec<f32>;
}
