use std::ops::Range;
use std::path::Path;

use burn::tensor::Device;
use burn::train::{InferenceStep, TrainStep};
use burn_sparse_datasets::DatasetError;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::classification::{right, scores};
use crate::{Classifier, Metric};

/// Test samples at a time.
const TEST_BATCH: usize = 500;

/// Training samples of one step.
#[derive(Debug, Clone, Copy)]
pub struct Samples<'a> {
    /// Which.
    pub indices: &'a [usize],
    /// The seed of their augmentation (crops, mirror images): another number in every epoch.
    pub draw: u64,
}

impl Samples<'_> {
    /// What varies a sample: the same for an epoch and a sample, whatever else is in the batch.
    pub fn random(&self, index: usize) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.draw);
        random.set_stream(index as u64);
        random
    }
}

/// A model, its data, its metric.
pub trait Task {
    /// The model.
    type Model: Classifier;
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

    /// Rearranges the order of an epoch's samples, which is drawn at random, where batches should not be.
    fn arrange(
        &self,
        _data: &Self::Data,
        _order: &mut Vec<usize>,
        _batch: usize,
        _random: &mut ChaCha8Rng,
    ) {
    }

    /// Some training samples.
    fn batch(
        &self,
        data: &Self::Data,
        samples: Samples<'_>,
        device: &Device,
    ) -> <Self::Model as TrainStep>::Input;

    /// The number of test samples.
    fn test_len(&self, data: &Self::Data) -> usize;

    /// Some test samples.
    fn test_batch(
        &self,
        data: &Self::Data,
        range: Range<usize>,
        device: &Device,
    ) -> <Self::Model as TrainStep>::Input;

    /// Whether a lower metric is the better one.
    fn lower_is_better(&self) -> bool {
        false
    }

    /// The metric on the test data: the share of samples whose highest score is that of their class.
    fn evaluate(&self, data: &Self::Data, model: &Self::Model, device: &Device) -> Metric {
        let len = self.test_len(data);
        let ranges = (0..len).step_by(TEST_BATCH).map(|from| from..(from + TEST_BATCH).min(len));
        let found = ranges
            .map(|range| right(InferenceStep::step(model, self.test_batch(data, range, device))));
        Metric::new("accuracy", found.sum::<usize>() as f64 / len as f64)
    }

    /// The model's scores for the first `samples` test samples, flat: what two forms of one model are compared
    /// by.
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
