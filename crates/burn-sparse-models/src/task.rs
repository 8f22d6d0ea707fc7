use std::path::Path;

use burn::module::{Module, ModuleDisplay};
use burn::tensor::Device;
use burn::train::{TrainOutput, TrainStep};
use burn_sparse::recipe::Distill;
use burn_sparse_datasets::DatasetError;
use serde::{Deserialize, Serialize};

/// A measure of quality.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// What is measured: `accuracy`.
    pub name: String,
    /// Its value; for shares, 0 to 1.
    pub value: f64,
}

/// A model, its data, its metric.
pub trait Task {
    /// The model; any Burn module with a training step.
    type Model: TrainStep + Module + ModuleDisplay;
    /// The data, loaded.
    type Data;

    /// The name in recipes.
    fn name(&self) -> &'static str;

    /// Loads the data: from `folder`, or wherever the data set keeps itself.
    ///
    /// # Errors
    /// When files are missing or malformed.
    fn load(&self, folder: Option<&Path>, seed: u64) -> Result<Self::Data, DatasetError>;

    /// A freshly initialized model; seed the device first.
    fn model(&self, device: &Device) -> Self::Model;

    /// The number of training samples, known before the data is loaded.
    fn train_len(&self) -> usize;

    /// The training samples of these indices.
    fn batch(
        &self,
        data: &Self::Data,
        indices: &[usize],
        device: &Device,
    ) -> <Self::Model as TrainStep>::Input;

    /// A training step whose loss is shared with the outputs of a teacher, which is not trained.
    fn distilled(
        &self,
        model: &Self::Model,
        teacher: &Self::Model,
        batch: <Self::Model as TrainStep>::Input,
        distill: &Distill,
    ) -> TrainOutput<<Self::Model as TrainStep>::Output>;

    /// The loss of a training step.
    fn loss(&self, output: &<Self::Model as TrainStep>::Output) -> f64;

    /// Whether a lower metric is the better one.
    fn lower_is_better(&self) -> bool {
        false
    }

    /// The metric on the test data.
    fn evaluate(&self, data: &Self::Data, model: &Self::Model, device: &Device) -> Metric;

    /// The model's outputs for the first `samples` test samples, flat: what two forms of one model
    /// are compared by.
    fn outputs(
        &self,
        data: &Self::Data,
        model: &Self::Model,
        samples: usize,
        device: &Device,
    ) -> Vec<f32>;
}
