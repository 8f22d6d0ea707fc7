use std::ops::Range;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn::train::TrainStep;
use burn_sparse_datasets::{DatasetError, ImageSet, Images, glyphs, mnist};
use burn_sparse_models::{ImageBatch, Mlp, MlpConfig};

use crate::initialize::Initialize;
use crate::{Classification, Samples};

/// Classification of images into ten classes with an [`Mlp`].
#[derive(Debug, Clone)]
pub struct ImageTask {
    images: Source,
    net: MlpConfig,
}

#[derive(Debug, Clone, Copy)]
enum Source {
    Glyphs,
    Mnist,
}

const PIXELS: usize = 28 * 28;
const CLASSES: usize = 10;

impl ImageTask {
    /// Returns `glyphs-mlp`: generated data.
    pub fn glyphs() -> Self {
        Self { images: Source::Glyphs, net: MlpConfig::new(PIXELS, 256, CLASSES) }
    }

    /// Returns `mnist-mlp`: MNIST.
    pub fn mnist() -> Self {
        Self { images: Source::Mnist, net: MlpConfig::new(PIXELS, 512, CLASSES) }
    }

    /// Sets the width of the network to a share of the usual one.
    #[must_use]
    pub fn narrowed(self, share: f64) -> Self {
        Self { net: self.net.narrowed(share), ..self }
    }
}

impl Classification for ImageTask {
    type Model = Mlp;
    type Data = ImageSet;

    fn name(&self) -> &'static str {
        match self.images {
            Source::Glyphs => "glyphs-mlp",
            Source::Mnist => "mnist-mlp",
        }
    }

    fn load(&self, folder: Option<&Path>, seed: u64) -> Result<ImageSet, DatasetError> {
        match self.images {
            Source::Glyphs => Ok(glyphs::generate(seed, glyphs::TRAIN, glyphs::TEST)),
            Source::Mnist => mnist::load(folder),
        }
    }

    fn model(&self, device: &Device) -> Mlp {
        let model = self.net.init(device);
        model.visit(&mut Initialize);
        model
    }

    fn train_len(&self) -> usize {
        match self.images {
            Source::Glyphs => glyphs::TRAIN,
            Source::Mnist => 60_000,
        }
    }

    fn batch(&self, data: &ImageSet, samples: Samples<'_>, device: &Device) -> ImageBatch {
        batch(&data.train, samples.indices.iter().copied(), device)
    }

    fn test_len(&self, data: &ImageSet) -> usize {
        data.test.len()
    }

    fn test_batch(&self, data: &ImageSet, range: Range<usize>, device: &Device) -> ImageBatch {
        batch(&data.test, range, device)
    }
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

// Compile-time check that the model also trains under burn-train's own loop.
const _: fn() = || {
    fn is_train_step<T: TrainStep>() {}
    is_train_step::<burn_sparse::train::Sparse<Mlp>>();
};
