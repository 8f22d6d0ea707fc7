use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Tensor, s};
use burn::train::ClassificationOutput;
use burn_sparse::nn::{Linear, LinearConfig};

use super::narrowed::narrowed;
use super::pictures::{Normed, PictureBatch, PictureNet, pooled};
use super::steps::{classified, trained_by_classify};

/// Configuration of a [`ResNet`].
#[derive(Config, Debug)]
pub struct ResNetConfig {
    /// Channels of the first stage; each of the next two doubles them.
    pub channels: usize,
    /// Blocks per stage: 3 for ResNet-20, 9 for ResNet-56.
    pub blocks: usize,
    /// Number of classes.
    pub classes: usize,
}

/// Residual network for 32 x 32 images (He et al., "Deep residual learning", 2016, section 4.2): three stages of
/// blocks, each with two convolutions and a shortcut without weights (option A).
#[derive(Module, Debug)]
pub struct ResNet {
    first: Normed,
    blocks: Vec<Block>,
    head: Linear,
}

#[derive(Module, Debug)]
struct Block {
    conv1: Normed,
    conv2: Normed,
    /// Number of channels that the block adds. If it is not zero, the shortcut takes every other row and column of
    /// pixels, with zeros for the new channels.
    widens: usize,
}

impl PictureNet for ResNetConfig {
    type Net = ResNet;

    fn narrowed(mut self, share: f64) -> Self {
        self.channels = narrowed(self.channels, share);
        self
    }

    fn init(&self, device: &Device) -> ResNet {
        let mut blocks = Vec::new();
        let mut channels = self.channels;
        for stage in 0..3 {
            for block in 0..self.blocks {
                let widens = if stage > 0 && block == 0 { channels } else { 0 };
                let stride = if widens > 0 { 2 } else { 1 };
                let conv1 = Normed::new(channels, channels + widens, stride, device);
                channels += widens;
                let conv2 = Normed::new(channels, channels, 1, device);
                blocks.push(Block { conv1, conv2, widens });
            }
        }
        ResNet {
            first: Normed::new(3, self.channels, 1, device),
            blocks,
            head: LinearConfig::new(channels, self.classes).init(device),
        }
    }
}

impl ResNet {
    /// Computes class scores.
    ///
    /// # Shapes
    /// - input: `[batch, 3, 32, 32]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let x = self.first.forward(images, None);
        let x = self.blocks.iter().fold(x, |x, block| block.forward(x));
        self.head.forward(pooled(x))
    }

    fn classify(&self, batch: PictureBatch) -> ClassificationOutput {
        classified(self.forward(batch.images), batch.targets)
    }
}

impl Block {
    fn forward(&self, x: Tensor<4>) -> Tensor<4> {
        let y = self.conv1.forward(x.clone(), None);
        let shortcut = match self.widens {
            0 => x,
            channels => {
                let x = x.slice(s![.., .., ..;2, ..;2]);
                let [batch, _, height, width] = x.dims();
                let zeros = Tensor::zeros([batch, channels, height, width], &x.device());
                Tensor::cat(vec![x, zeros], 1)
            }
        };
        self.conv2.forward(y, Some(&shortcut))
    }
}

trained_by_classify!(ResNet, PictureBatch);
