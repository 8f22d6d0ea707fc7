//! Losses and scores of classifiers.

use burn::tensor::Tensor;
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_sparse_models::Classifier;

use crate::recipe::Distill;

/// Takes a training step whose loss includes the scores of a teacher, which is not trained.
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

/// Returns the loss of a step.
pub(crate) fn loss(output: &ClassificationOutput) -> f64 {
    let loss = output.loss.clone().into_data().convert::<f64>().try_into_vec();
    loss.ok().and_then(|loss: Vec<f64>| loss.first().copied()).unwrap_or(f64::NAN)
}

/// Returns the number of samples of a step.
pub(crate) fn samples(output: &ClassificationOutput) -> usize {
    output.targets.dims()[0]
}

/// Returns the scores, flat.
pub(crate) fn scores(output: ClassificationOutput) -> Vec<f32> {
    output.output.into_data().convert::<f32>().try_into_vec().unwrap_or_default()
}

/// Returns the number of samples whose highest score is that of their class.
pub(crate) fn right(output: ClassificationOutput) -> usize {
    let targets = output.targets.clone().into_data().convert::<i64>().try_into_vec();
    let targets: Vec<i64> = targets.unwrap_or_default();
    let scores = scores(output);
    let classes = (scores.len() / targets.len().max(1)).max(1);
    let samples = scores.chunks_exact(classes).zip(&targets);
    samples.filter(|(scores, target)| best(scores) as i64 == **target).count()
}

/// Returns the class with the highest score, the lower one of equals.
fn best(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (1..scores.len()).fold(0, better)
}
