//! What all tasks share: their models score classes, be they of an image or of the next token.

use burn::module::{Module, ModuleDisplay};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_sparse::recipe::Distill;

/// A model that scores classes, trained and tested on the same batches.
pub trait Classifier:
    Module
    + ModuleDisplay
    + TrainStep<Output = ClassificationOutput>
    + InferenceStep<Input = <Self as TrainStep>::Input, Output = ClassificationOutput>
{
}

impl<M> Classifier for M where
    M: Module
        + ModuleDisplay
        + TrainStep<Output = ClassificationOutput>
        + InferenceStep<Input = <M as TrainStep>::Input, Output = ClassificationOutput>
{
}

/// Trains and tests a model by its `classify(&self, batch)`.
macro_rules! trained_by_classify {
    ($model:ty, $batch:ty) => {
        impl burn::train::TrainStep for $model {
            type Input = $batch;
            type Output = burn::train::ClassificationOutput;

            fn step(&self, batch: $batch) -> burn::train::TrainOutput<Self::Output> {
                let output = self.classify(batch);
                burn::train::TrainOutput::new(self, output.loss.backward(), output)
            }
        }

        impl burn::train::InferenceStep for $model {
            type Input = $batch;
            type Output = burn::train::ClassificationOutput;

            fn step(&self, batch: $batch) -> Self::Output {
                self.classify(batch)
            }
        }
    };
}
pub(crate) use trained_by_classify;

/// Class scores `[samples, classes]` with their cross entropy.
pub(crate) fn classified(scores: Tensor<2>, targets: Tensor<1, Int>) -> ClassificationOutput {
    let loss = CrossEntropyLossConfig::new()
        .init(&scores.device())
        .forward(scores.clone(), targets.clone());
    ClassificationOutput::new(loss, scores, targets)
}

/// As [`classified`], with a share of every target spread over all classes.
pub(crate) fn smoothed(
    scores: Tensor<2>,
    targets: Tensor<1, Int>,
    share: f64,
) -> ClassificationOutput {
    // Burn's smoothing would make a matrix of targets as large as the scores.
    let logarithms = log_softmax(scores.clone(), 1);
    let right = logarithms.clone().gather(1, targets.clone().unsqueeze_dim(1)).mean();
    let loss = right * (share - 1.0) - logarithms.mean() * share;
    ClassificationOutput::new(loss, scores, targets)
}

/// A training step whose loss is shared with the scores of a teacher, which is not trained.
pub(crate) fn distilled<M: Classifier>(
    model: &M,
    batch: <M as TrainStep>::Input,
    teacher: Tensor<2>,
    distill: &Distill,
) -> TrainOutput<ClassificationOutput> {
    let output = InferenceStep::step(model, batch);
    let loss = distill.blend(output.loss, output.output.clone(), Tensor::from_inner(teacher));
    let output = ClassificationOutput::new(loss, output.output, output.targets);
    TrainOutput::new(model, output.loss.backward(), output)
}

/// The loss of a step.
pub(crate) fn loss(output: &ClassificationOutput) -> f64 {
    let loss = output.loss.clone().into_data().convert::<f64>().try_into_vec();
    loss.ok().and_then(|loss: Vec<f64>| loss.first().copied()).unwrap_or(f64::NAN)
}

/// How many samples a step has scored.
pub(crate) fn samples(output: &ClassificationOutput) -> usize {
    output.targets.dims()[0]
}

/// The scores, flat.
pub(crate) fn scores(output: ClassificationOutput) -> Vec<f32> {
    output.output.into_data().convert::<f32>().try_into_vec().unwrap_or_default()
}

/// How many samples score highest for the class they are of.
pub(crate) fn right(output: ClassificationOutput) -> usize {
    let targets = output.targets.clone().into_data().convert::<i64>().try_into_vec();
    let targets: Vec<i64> = targets.unwrap_or_default();
    let scores = scores(output);
    let classes = (scores.len() / targets.len().max(1)).max(1);
    let samples = scores.chunks_exact(classes).zip(&targets);
    samples.filter(|(scores, target)| best(scores) as i64 == **target).count()
}

/// The class with the highest score, the lower one of equals.
fn best(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (1..scores.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn smoothing_is_burns_own() {
        let device = Device::flex();
        let scores = Tensor::<2>::from_floats([[0.3, -1.0, 2.0], [0.0, 0.5, -0.5]], &device);
        let targets = Tensor::<1, Int>::from_ints([2, 0], &device);
        for share in [0.0, 0.1] {
            let config = CrossEntropyLossConfig::new().with_smoothing(Some(share as f32));
            let expected = config.init(&device).forward(scores.clone(), targets.clone());
            let found = smoothed(scores.clone(), targets.clone(), share);
            let expected = expected.into_scalar::<f32>();
            assert!((loss(&found) - f64::from(expected)).abs() < 1e-6, "{share}: {expected}");
        }
    }
}
