//! Cross entropy, and burn-train's steps.

use burn::module::{Module, ModuleDisplay};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::activation::log_softmax;
use burn::tensor::{Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainStep};

/// Model that scores classes, and is trained and tested on the same type of batch.
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

/// Implements `TrainStep` and `InferenceStep` with a model's `classify(&self, batch)`.
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

/// Returns class scores `[samples, classes]` with their cross entropy.
pub fn classified(scores: Tensor<2>, targets: Tensor<1, Int>) -> ClassificationOutput {
    let loss = CrossEntropyLossConfig::new()
        .init(&scores.device())
        .forward(scores.clone(), targets.clone());
    ClassificationOutput::new(loss, scores, targets)
}

/// As [`classified`], with label smoothing: `share` of every target is spread over all classes.
pub(crate) fn smoothed(
    scores: Tensor<2>,
    targets: Tensor<1, Int>,
    share: f64,
) -> ClassificationOutput {
    // Burn's label smoothing would allocate targets as large as the scores.
    let logarithms = log_softmax(scores.clone(), 1);
    let right = logarithms.clone().gather(1, targets.clone().unsqueeze_dim(1)).mean();
    let loss = right * (share - 1.0) - logarithms.mean() * share;
    ClassificationOutput::new(loss, scores, targets)
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
            let found = found.loss.into_scalar::<f32>();
            assert!((found - expected).abs() < 1e-6, "{share}: {found} {expected}");
        }
    }
}
