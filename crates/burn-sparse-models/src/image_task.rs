use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::{ClassificationOutput, TrainStep};
use burn_sparse_datasets::{DatasetError, ImageSet, Images, glyphs, mnist};

use crate::{ImageBatch, Metric, Mlp, MlpConfig, Task};

/// Images into ten classes with an [`Mlp`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageTask {
    /// `glyphs-mlp`: built-in data.
    Glyphs,
    /// `mnist-mlp`.
    Mnist,
}

const PIXELS: usize = 28 * 28;
const CLASSES: usize = 10;

/// Test samples at a time.
const TEST_BATCH: usize = 500;

impl Task for ImageTask {
    type Model = Mlp;
    type Data = ImageSet;

    fn name(&self) -> &'static str {
        match self {
            Self::Glyphs => "glyphs-mlp",
            Self::Mnist => "mnist-mlp",
        }
    }

    fn load(&self, folder: Option<&Path>, seed: u64) -> Result<ImageSet, DatasetError> {
        match self {
            Self::Glyphs => Ok(glyphs::generate(seed, glyphs::TRAIN, glyphs::TEST)),
            Self::Mnist => mnist::load(folder),
        }
    }

    fn model(&self, device: &Device) -> Mlp {
        let hidden = match self {
            Self::Glyphs => 256,
            Self::Mnist => 512,
        };
        let model = MlpConfig::new(PIXELS, hidden, CLASSES).init(device);
        // Parameters draw their values when they are first read: read all now, in one fixed order.
        model.visit(&mut Initialize);
        model
    }

    fn train_len(&self) -> usize {
        match self {
            Self::Glyphs => glyphs::TRAIN,
            Self::Mnist => 60_000,
        }
    }

    fn batch(&self, data: &ImageSet, indices: &[usize], device: &Device) -> ImageBatch {
        batch(&data.train, indices.iter().copied(), device)
    }

    fn loss(&self, output: &ClassificationOutput) -> f64 {
        let loss = output.loss.clone().into_data().convert::<f64>().try_into_vec();
        loss.ok().and_then(|loss: Vec<f64>| loss.first().copied()).unwrap_or(f64::NAN)
    }

    fn evaluate(&self, data: &ImageSet, model: &Mlp, device: &Device) -> Metric {
        let test = &data.test;
        let mut right = 0;
        for from in (0..test.len()).step_by(TEST_BATCH) {
            let to = (from + TEST_BATCH).min(test.len());
            let scores = scores(model, test, from..to, device);
            let labels = &test.labels[from..to];
            right += scores
                .chunks_exact(CLASSES)
                .zip(labels)
                .filter(|(scores, label)| best(scores) == usize::from(**label))
                .count();
        }
        Metric { name: "accuracy".into(), value: right as f64 / test.len() as f64 }
    }

    fn outputs(&self, data: &ImageSet, model: &Mlp, samples: usize, device: &Device) -> Vec<f32> {
        scores(model, &data.test, 0..samples.min(data.test.len()), device)
    }
}

fn scores(
    model: &Mlp,
    images: &Images,
    range: std::ops::Range<usize>,
    device: &Device,
) -> Vec<f32> {
    let batch = batch(images, range, device);
    let scores = model.forward(batch.images).into_data().convert::<f32>();
    scores.try_into_vec().unwrap_or_default()
}

/// The class with the highest score, the lower one of equals.
fn best(scores: &[f32]) -> usize {
    let better = |best: usize, at: usize| if scores[at] > scores[best] { at } else { best };
    (1..scores.len()).fold(0, better)
}

fn batch(images: &Images, indices: impl Iterator<Item = usize>, device: &Device) -> ImageBatch {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for index in indices {
        pixels.extend_from_slice(images.image(index));
        labels.push(i32::from(images.labels[index]));
    }
    let count = labels.len();
    ImageBatch {
        images: Tensor::from_data(TensorData::new(pixels, [count, images.size]), device),
        targets: Tensor::from_data(TensorData::new(labels, [count]), device),
    }
}

struct Initialize;

impl ModuleVisitor for Initialize {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        param.val();
    }
}

// The compiler proves here that the model trains under burn-train's own loop as well.
const _: fn() = || {
    fn is_train_step<T: TrainStep>() {}
    is_train_step::<burn_sparse::train::Sparse<Mlp>>();
};
