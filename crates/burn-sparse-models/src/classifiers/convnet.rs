use burn::config::Config;
use burn::module::Module;
use burn::nn::{Initializer, PaddingConfig2d};
use burn::tensor::{Device, Tensor};
use burn::train::ClassificationOutput;
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};
use burn_sparse::nn::{Activation, Linear, LinearConfig};

use super::narrowed::narrowed;
use super::steps::{classified, trained_by_classify};
use super::{PictureBatch, PictureNet};

/// Configuration of a [`ConvNet`].
#[derive(Config, Debug)]
pub struct ConvNetConfig {
    /// Channels of the first convolution; each of the next two doubles them.
    pub channels: usize,
    /// Features of the hidden linear layer.
    pub hidden: usize,
    /// Number of classes.
    pub classes: usize,
}

/// Three convolutions of stride 2, a hidden linear layer and a head, with ReLU in between, for 32 x 32 images.
#[derive(Module, Debug)]
pub struct ConvNet {
    conv1: Conv2d,
    conv2: Conv2d,
    conv3: Conv2d,
    fc: Linear,
    head: Linear,
}

impl PictureNet for ConvNetConfig {
    type Net = ConvNet;

    fn narrowed(mut self, share: f64) -> Self {
        self.channels = narrowed(self.channels, share);
        self.hidden = narrowed(self.hidden, share);
        self
    }

    fn init(&self, device: &Device) -> ConvNet {
        let (first, second, third) = (self.channels, 2 * self.channels, 4 * self.channels);
        let conv = |inputs, outputs, side: usize| {
            let config = Conv2dConfig::new([inputs, outputs], [side, side])
                .with_stride([2, 2])
                .with_padding(PaddingConfig2d::Explicit(side / 2, side / 2, side / 2, side / 2))
                .with_initializer(Initializer::KaimingUniform {
                    gain: std::f64::consts::SQRT_2,
                    fan_out_only: false,
                });
            config.init(device)
        };
        ConvNet {
            conv1: conv(3, first, 5),
            conv2: conv(first, second, 3),
            conv3: conv(second, third, 3),
            fc: LinearConfig::new(third * 16, self.hidden).init(device),
            head: LinearConfig::new(self.hidden, self.classes).init(device),
        }
    }
}

impl ConvNet {
    /// Computes class scores.
    ///
    /// # Shapes
    /// - input: `[batch, 3, 32, 32]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.conv1.forward_activated(images, Activation::Relu);
        let x = self.conv2.forward_activated(x, Activation::Relu);
        let x = self.conv3.forward_activated(x, Activation::Relu);
        let x = self.fc.forward_activated(x.flatten(1, 3), Activation::Relu);
        self.head.forward(x)
    }

    fn classify(&self, batch: PictureBatch) -> ClassificationOutput {
        classified(self.forward(batch.images), batch.targets)
    }
}

trained_by_classify!(ConvNet, PictureBatch);
