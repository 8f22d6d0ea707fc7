use burn::config::Config;
use burn::module::Module;
use burn::nn::pool::{MaxPool2d, MaxPool2dConfig};
use burn::tensor::{Device, Tensor};
use burn::train::ClassificationOutput;
use burn_sparse::nn::{Linear, LinearConfig};

use super::narrowed::narrowed;
use super::pictures::{Normed, PictureBatch, PictureNet, pooled};
use super::steps::{classified, trained_by_classify};

/// Configuration of a [`Vgg`].
#[derive(Config, Debug)]
pub struct VggConfig {
    /// Channels of the first stage; each of the next three doubles them, and the fifth has as many as the fourth.
    pub channels: usize,
    /// Convolutions per stage: `[1, 1, 2, 2, 2]` for VGG-11, `[2, 2, 3, 3, 3]` for VGG-16.
    pub stages: [usize; 5],
    /// Number of classes.
    pub classes: usize,
}

/// Plain convolutional network for 32 x 32 images (Simonyan and Zisserman, 2015): five stages of convolutions, each
/// followed by max pooling, with batch normalization and a single linear layer as the head, as is usual for small
/// images.
#[derive(Module, Debug)]
pub struct Vgg {
    stages: Vec<Vec<Normed>>,
    pool: MaxPool2d,
    head: Linear,
}

impl PictureNet for VggConfig {
    type Net = Vgg;

    fn narrowed(mut self, share: f64) -> Self {
        self.channels = narrowed(self.channels, share);
        self
    }

    fn init(&self, device: &Device) -> Vgg {
        let mut inputs = 3;
        let stage = |(number, &convs): (usize, &usize)| {
            let outputs = self.channels << number.min(3);
            let conv = |_| Normed::new(std::mem::replace(&mut inputs, outputs), outputs, 1, device);
            (0..convs).map(conv).collect()
        };
        let stages = self.stages.iter().enumerate().map(stage).collect();
        Vgg {
            stages,
            pool: MaxPool2dConfig::new([2, 2]).with_strides([2, 2]).init(),
            head: LinearConfig::new(inputs, self.classes).init(device),
        }
    }
}

impl Vgg {
    /// Computes class scores.
    ///
    /// # Shapes
    /// - input: `[batch, 3, 32, 32]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let stage = |x, stage: &Vec<Normed>| {
            let x = stage.iter().fold(x, |x, conv| conv.forward(x, None));
            self.pool.forward(x)
        };
        self.head.forward(pooled(self.stages.iter().fold(images, stage)))
    }

    fn classify(&self, batch: PictureBatch) -> ClassificationOutput {
        classified(self.forward(batch.images), batch.targets)
    }
}

trained_by_classify!(Vgg, PictureBatch);
