use burn::config::Config;
use burn::module::Module;
use burn::nn::{Initializer, PaddingConfig2d};
use burn::tensor::{Device, Int, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};
use burn_sparse::nn::{Activation, Conv2d, Conv2dConfig, Linear, LinearConfig};

use crate::classification::classified;

/// The size of a [`ConvNet`].
#[derive(Config, Debug)]
pub struct ConvNetConfig {
    /// Channels of the first convolution; each of the next two doubles them.
    pub channels: usize,
    /// Features of the hidden linear layer.
    pub hidden: usize,
    /// Classes.
    pub classes: usize,
}

/// Three convolutions of stride 2, a hidden layer and a head, with ReLU between, for images of 32 x 32.
#[derive(Module, Debug)]
pub struct ConvNet {
    conv1: Conv2d,
    conv2: Conv2d,
    conv3: Conv2d,
    fc: Linear,
    head: Linear,
}

/// Colour images with their classes.
#[derive(Debug, Clone)]
pub struct PictureBatch {
    /// `[batch, 3, 32, 32]`.
    pub images: Tensor<4>,
    /// `[batch]`.
    pub targets: Tensor<1, Int>,
}

impl ConvNetConfig {
    /// Initializes the model.
    pub fn init(&self, device: &Device) -> ConvNet {
        let (first, second, third) = (self.channels, 2 * self.channels, 4 * self.channels);
        let conv = |inputs, outputs, side: usize| {
            let config = Conv2dConfig::new([inputs, outputs], [side, side])
                .with_stride([2, 2])
                .with_padding(PaddingConfig2d::Explicit(side / 2, side / 2, side / 2, side / 2))
                .with_initializer(Initializer::KaimingUniform {
                    gain: std::f64::consts::SQRT_2,
                    fan_out_only: false,
                });
            Conv2d::new(&config, device)
        };
        ConvNet {
            conv1: conv(3, first, 5),
            conv2: conv(first, second, 3),
            conv3: conv(second, third, 3),
            fc: Linear::new(&LinearConfig::new(third * 16, self.hidden), device),
            head: Linear::new(&LinearConfig::new(self.hidden, self.classes), device),
        }
    }
}

impl ConvNet {
    /// Class scores.
    ///
    /// # Shapes
    /// - input: `[batch, 3, 32, 32]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.conv1.forward_with(images, Activation::Relu);
        let x = self.conv2.forward_with(x, Activation::Relu);
        let x = self.conv3.forward_with(x, Activation::Relu);
        let x = self.fc.forward_with(x.flatten(1, 3), Activation::Relu);
        self.head.forward(x)
    }

    pub(crate) fn classify(&self, batch: PictureBatch) -> ClassificationOutput {
        classified(self.forward(batch.images), batch.targets)
    }
}

impl TrainStep for ConvNet {
    type Input = PictureBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: PictureBatch) -> TrainOutput<ClassificationOutput> {
        let output = self.classify(batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

impl InferenceStep for ConvNet {
    type Input = PictureBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: PictureBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}
