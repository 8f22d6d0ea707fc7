//! Tasks whose model scores classes, of images or of the next token.

use std::ops::Range;
use std::path::Path;

use burn::tensor::Device;
use burn::train::{ClassificationOutput, InferenceStep, TrainStep};
use burn_sparse_datasets::DatasetError;
use burn_sparse_models::Classifier;
use rand_chacha::ChaCha8Rng;

use crate::run_error::RunError;
use crate::task::{Loss, Samples, Task, Teacher};
use crate::{Metric, constant, scalar, values};

/// Number of test samples per batch.
const TEST_BATCH: usize = 500;

/// Task whose model scores classes: a [`Task`] with the loss that the model's `InferenceStep` returns, distilled by its scores.
pub trait Classification {
    /// Model.
    type Model: Classifier;
    /// Loaded data.
    type Data;

    /// As [`Task::name`].
    fn name(&self) -> &'static str;

    /// As [`Task::load`].
    ///
    /// # Errors
    /// Returns an error when files are missing or malformed.
    fn load(&self, folder: Option<&Path>, seed: u64) -> Result<Self::Data, DatasetError>;

    /// As [`Task::model`].
    fn model(&self, device: &Device) -> Self::Model;

    /// As [`Task::train_len`].
    fn train_len(&self) -> usize;

    /// As [`Task::arrange`].
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

    /// As [`Task::test_len`].
    fn test_len(&self, data: &Self::Data) -> usize;

    /// Makes a batch of test samples.
    fn test_batch(
        &self,
        data: &Self::Data,
        range: Range<usize>,
        device: &Device,
    ) -> <Self::Model as TrainStep>::Input;

    /// As [`Task::lower_is_better`].
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
}

impl<T: Classification> Task for T {
    type Model = T::Model;
    type Data = T::Data;

    fn name(&self) -> &'static str {
        Classification::name(self)
    }

    fn load(&self, folder: Option<&Path>, seed: u64) -> Result<T::Data, RunError> {
        Ok(Classification::load(self, folder, seed)?)
    }

    fn model(&self, device: &Device) -> T::Model {
        Classification::model(self, device)
    }

    fn train_len(&self) -> usize {
        Classification::train_len(self)
    }

    fn arrange(
        &self,
        data: &T::Data,
        order: &mut Vec<usize>,
        batch: usize,
        random: &mut ChaCha8Rng,
    ) {
        Classification::arrange(self, data, order, batch, random);
    }

    fn loss(
        &self,
        model: &T::Model,
        data: &T::Data,
        samples: Samples<'_>,
        teacher: Option<Teacher<'_, T::Model>>,
        device: &Device,
    ) -> Loss {
        let taught = teacher.map(|Teacher { model, distill }| {
            let batch = self.batch(data, samples, &device.clone().inner());
            (InferenceStep::step(model, batch).output, distill)
        });
        let found = InferenceStep::step(model, self.batch(data, samples, device));
        let predictions = found.targets.dims()[0];
        let value = match taught {
            Some((scores, distill)) => {
                let scores = constant(scores, &found.output);
                distill.blend(found.loss, found.output, scores)
            }
            None => found.loss,
        };
        Loss { value, predictions }
    }

    fn test_len(&self, data: &T::Data) -> usize {
        Classification::test_len(self, data)
    }

    fn lower_is_better(&self) -> bool {
        Classification::lower_is_better(self)
    }

    fn evaluate(
        &self,
        data: &T::Data,
        model: &T::Model,
        device: &Device,
    ) -> Result<Metric, RunError> {
        Ok(Classification::evaluate(self, data, model, device))
    }

    fn outputs(
        &self,
        data: &T::Data,
        model: &T::Model,
        samples: usize,
        device: &Device,
    ) -> Vec<f32> {
        let range = 0..samples.min(Classification::test_len(self, data));
        scores(InferenceStep::step(model, self.test_batch(data, range, device)))
    }
}

/// Returns the loss of a batch.
pub(crate) fn loss(output: &ClassificationOutput) -> f64 {
    scalar(&output.loss)
}

/// Returns the scores, flat.
fn scores(output: ClassificationOutput) -> Vec<f32> {
    values(output.output)
}

/// Returns the number of samples whose own class has the highest score.
fn right(output: ClassificationOutput) -> usize {
    let targets = output.targets.clone().into_data().convert::<i64>().try_into_vec();
    let targets: Vec<i64> = targets.unwrap_or_default();
    let scores = scores(output);
    let classes = (scores.len() / targets.len().max(1)).max(1);
    let samples = scores.chunks_exact(classes).zip(&targets);
    samples.filter(|(scores, target)| best(scores) == Some(**target as usize)).count()
}

/// Returns the class with the highest score, the lowest one on a tie; `None` if scores are NaN or infinite.
fn best(scores: &[f32]) -> Option<usize> {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    scores.iter().all(|score| score.is_finite()).then(|| (1..scores.len()).fold(0, better))
}
