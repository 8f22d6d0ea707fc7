use std::ops::Range;
use std::path::Path;

use burn::tensor::Device;
use burn::train::{InferenceStep, TrainStep};
use burn_sparse_datasets::DatasetError;
use burn_sparse_models::Classifier;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Metric;
use crate::scoring::{right, scores};

/// Number of test samples per batch.
const TEST_BATCH: usize = 500;

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

/// A task: a model, its data, and its metric.
pub trait Task {
    /// Model.
    type Model: Classifier;
    /// Loaded data.
    type Data;

    /// Returns the name in recipes.
    fn name(&self) -> &'static str;

    /// Loads the data from `folder`, or from the data set's own cache.
    ///
    /// # Errors
    /// When files are missing or malformed.
    fn load(&self, folder: Option<&Path>, seed: u64) -> Result<Self::Data, DatasetError>;

    /// Initializes a model; seed the device first.
    fn model(&self, device: &Device) -> Self::Model;

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

    /// Makes a batch of training samples.
    fn batch(
        &self,
        data: &Self::Data,
        samples: Samples<'_>,
        device: &Device,
    ) -> <Self::Model as TrainStep>::Input;

    /// Returns the number of test samples.
    fn test_len(&self, data: &Self::Data) -> usize;

    /// Makes a batch of test samples.
    fn test_batch(
        &self,
        data: &Self::Data,
        range: Range<usize>,
        device: &Device,
    ) -> <Self::Model as TrainStep>::Input;

    /// Returns `true` if a lower metric is better.
    fn lower_is_better(&self) -> bool {
        false
    }

    /// Evaluates the metric on the test data: accuracy by default.
    fn evaluate(&self, data: &Self::Data, model: &Self::Model, device: &Device) -> Metric {
        let len = self.test_len(data);
        let ranges = (0..len).step_by(TEST_BATCH).map(|from| from..(from + TEST_BATCH).min(len));
        let found = ranges
            .map(|range| right(InferenceStep::step(model, self.test_batch(data, range, device))));
        Metric::new("accuracy", found.sum::<usize>() as f64 / len as f64)
    }

    /// Returns the model's scores for the first `samples` test samples, flat. Two forms of a model are compared by them.
    fn outputs(
        &self,
        data: &Self::Data,
        model: &Self::Model,
        samples: usize,
        device: &Device,
    ) -> Vec<f32> {
        let range = 0..samples.min(self.test_len(data));
        scores(InferenceStep::step(model, self.test_batch(data, range, device)))
    }
}
