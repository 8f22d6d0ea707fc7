use std::ops::Range;
use std::path::Path;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use burn_sparse_datasets::{ByteImageSet, ByteImages, DatasetError, cifar10};
use burn_sparse_models::{ConvNetConfig, PictureBatch, PictureNet, ResNetConfig, VggConfig};

use super::crop::Crop;
use crate::initialize::Initialize;
use crate::{Classification, Samples};

/// Classification of CIFAR-10 with one of several networks.
#[derive(Debug, Clone)]
pub struct Cifar10Task<N> {
    name: &'static str,
    net: N,
    /// `true` if training images are shifted and mirrored at random.
    augment: bool,
}

/// Mean and standard deviation of each channel over the training images, for pixels from 0 to 1.
const MEAN: [f32; 3] = [0.4914, 0.4822, 0.4465];
const DEVIATION: [f32; 3] = [0.2470, 0.2435, 0.2616];

const CLASSES: usize = cifar10::CLASSES.len();

impl Cifar10Task<ConvNetConfig> {
    /// Returns `cifar10-convnet`: three convolutions, for experiments that take a minute, without data augmentation.
    pub fn convnet() -> Self {
        let net = ConvNetConfig::new(32, 128, CLASSES);
        Self { name: "cifar10-convnet", net, augment: false }
    }
}

impl Cifar10Task<ResNetConfig> {
    /// Returns `cifar10-resnet`: ResNet-20.
    pub fn resnet() -> Self {
        Self { name: "cifar10-resnet", net: ResNetConfig::new(16, 3, CLASSES), augment: true }
    }

    /// Returns `cifar10-resnet-large`: ResNet-20 with four times the width, for a GPU.
    pub fn resnet_large() -> Self {
        Self { name: "cifar10-resnet-large", net: ResNetConfig::new(64, 3, CLASSES), augment: true }
    }
}

impl Cifar10Task<VggConfig> {
    /// Returns `cifar10-vgg`: VGG-11 at half its width.
    pub fn vgg() -> Self {
        let net = VggConfig::new(32, [1, 1, 2, 2, 2], CLASSES);
        Self { name: "cifar10-vgg", net, augment: true }
    }

    /// Returns `cifar10-vgg-large`: VGG-16, for a GPU.
    pub fn vgg_large() -> Self {
        let net = VggConfig::new(64, [2, 2, 3, 3, 3], CLASSES);
        Self { name: "cifar10-vgg-large", net, augment: true }
    }
}

impl<N: PictureNet> Cifar10Task<N> {
    /// Sets the width of the network to a share of the usual one.
    #[must_use]
    pub fn narrowed(self, share: f64) -> Self {
        Self { net: self.net.narrowed(share), ..self }
    }
}

impl<N: PictureNet> Classification for Cifar10Task<N> {
    type Model = N::Net;
    type Data = ByteImageSet;

    fn name(&self) -> &'static str {
        self.name
    }

    fn load(&self, folder: Option<&Path>, _seed: u64) -> Result<ByteImageSet, DatasetError> {
        cifar10::load(folder)
    }

    fn model(&self, device: &Device) -> N::Net {
        let model = self.net.init(device);
        model.visit(&mut Initialize);
        model
    }

    fn train_len(&self) -> usize {
        cifar10::TRAIN
    }

    fn batch(&self, data: &ByteImageSet, samples: Samples<'_>, device: &Device) -> PictureBatch {
        let cropped = |&index: &usize| {
            let crop =
                if self.augment { Crop::draw(&mut samples.random(index)) } else { Crop::NONE };
            (index, crop)
        };
        batch(&data.train, samples.indices.iter().map(cropped), device)
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
        batch(&data.test, range.map(|index| (index, Crop::NONE)), device)
    }
}

fn batch(
    images: &ByteImages,
    samples: impl Iterator<Item = (usize, Crop)>,
    device: &Device,
) -> PictureBatch {
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    let [channels, height, width] = images.shape;
    for (index, crop) in samples {
        let planes = images.image(index).chunks_exact(height * width);
        for ((plane, mean), deviation) in planes.zip(MEAN).zip(DEVIATION) {
            // Pixels outside the image are black: the usual augmentation also pads before it normalizes.
            let bytes = crop.of(plane, [height, width]);
            pixels.extend(bytes.map(|byte| (f32::from(byte) / 255.0 - mean) / deviation));
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
