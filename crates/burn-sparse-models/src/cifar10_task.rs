use std::ops::Range;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse_datasets::{ByteImageSet, ByteImages, DatasetError, cifar10};

use crate::initialize::Initialize;
use crate::{ConvNet, ConvNetConfig, PictureBatch, Task};

/// `cifar10-convnet`: CIFAR-10 with a small [`ConvNet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cifar10Task;

/// Mean and standard deviation of each channel of the training images, from 0 to 1.
const MEAN: [f32; 3] = [0.4914, 0.4822, 0.4465];
const DEVIATION: [f32; 3] = [0.2470, 0.2435, 0.2616];

impl Task for Cifar10Task {
    type Model = ConvNet;
    type Data = ByteImageSet;

    fn name(&self) -> &'static str {
        "cifar10-convnet"
    }

    fn load(&self, folder: Option<&Path>, _seed: u64) -> Result<ByteImageSet, DatasetError> {
        cifar10::load(folder)
    }

    fn model(&self, device: &Device) -> ConvNet {
        let model = ConvNetConfig::new(32, 128, cifar10::CLASSES.len()).init(device);
        model.visit(&mut Initialize);
        model
    }

    fn train_len(&self) -> usize {
        cifar10::TRAIN
    }

    fn batch(&self, data: &ByteImageSet, indices: &[usize], device: &Device) -> PictureBatch {
        batch(&data.train, indices.iter().copied(), device)
    }

    fn test_len(&self, data: &ByteImageSet) -> usize {
        data.test.len()
    }

    fn test_batch(
        &self,
        data: &ByteImageSet,
        range: Range<usize>,
        device: &Device,
    ) -> PictureBatch {
        batch(&data.test, range, device)
    }
}

fn batch(
    images: &ByteImages,
    indices: impl Iterator<Item = usize>,
    device: &Device,
) -> PictureBatch {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    let [channels, height, width] = images.shape;
    for index in indices {
        let planes = images.image(index).chunks_exact(height * width);
        for ((plane, mean), deviation) in planes.zip(MEAN).zip(DEVIATION) {
            pixels.extend(plane.iter().map(|&byte| (f32::from(byte) / 255.0 - mean) / deviation));
        }
        labels.push(i32::from(images.labels[index]));
    }
    let count = labels.len();
    let shape = [count, channels, height, width];
    PictureBatch {
        images: Tensor::from_data(TensorData::new(pixels, shape), device),
        targets: Tensor::from_data(TensorData::new(labels, [count]), device),
    }
}
