//! What tasks that sort into classes share.

use std::ops::Range;

use burn::nn::loss::CrossEntropyLossConfig;
use burn::tensor::{Int, Tensor};
use burn::train::ClassificationOutput;
use burn_sparse::recipe::Distill;

use crate::Metric;

/// Test samples at a time.
const TEST_BATCH: usize = 500;

/// Class scores `[batch, classes]` with their cross entropy.
pub(crate) fn classified(scores: Tensor<2>, targets: Tensor<1, Int>) -> ClassificationOutput {
    let loss = CrossEntropyLossConfig::new()
        .init(&scores.device())
        .forward(scores.clone(), targets.clone());
    ClassificationOutput::new(loss, scores, targets)
}

/// The same with the teacher's share of the loss; `teacher` holds its scores.
pub(crate) fn distilled(
    output: ClassificationOutput,
    teacher: Tensor<2>,
    distill: &Distill,
) -> ClassificationOutput {
    let loss = distill.blend(output.loss, output.output.clone(), Tensor::from_inner(teacher));
    ClassificationOutput::new(loss, output.output, output.targets)
}

/// The loss of a step.
pub(crate) fn loss(output: &ClassificationOutput) -> f64 {
    let loss = output.loss.clone().into_data().convert::<f64>().try_into_vec();
    loss.ok().and_then(|loss: Vec<f64>| loss.first().copied()).unwrap_or(f64::NAN)
}

/// The share of test samples whose highest score is that of their label. `scores` gives those of a range
/// of samples, flat.
pub(crate) fn accuracy(labels: &[u8], scores: impl Fn(Range<usize>) -> Vec<f32>) -> Metric {
    let mut right = 0;
    for from in (0..labels.len()).step_by(TEST_BATCH) {
        let labels = &labels[from..(from + TEST_BATCH).min(labels.len())];
        let scores = scores(from..from + labels.len());
        let classes = (scores.len() / labels.len()).max(1);
        let rows = scores.chunks_exact(classes).zip(labels);
        right += rows.filter(|(scores, label)| best(scores) == usize::from(**label)).count();
    }
    Metric { name: "accuracy".into(), value: right as f64 / labels.len() as f64 }
}

/// The class with the highest score, the lower one of equals.
fn best(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (1..scores.len()).fold(0, better)
}
