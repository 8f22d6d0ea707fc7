use burn::module::Module;
use burn::nn::{BatchNorm, BatchNormConfig, Initializer, PaddingConfig2d};
use burn::tensor::{Device, Int, Tensor};
use burn::train::TrainStep;
use burn_sparse::nn::batch_norm_relu;
use burn_sparse::nn::conv::{Conv2d, Conv2dConfig};

use super::Classifier;

/// Batch of color images with their classes.
#[derive(Debug, Clone)]
pub struct PictureBatch {
    /// Pixels of each image, `[batch, 3, 32, 32]`.
    pub images: Tensor<4>,
    /// Class of each image, `[batch]`.
    pub targets: Tensor<1, Int>,
}

/// Configuration of a network for color images.
pub trait PictureNet: Sized {
    /// Network that this configuration initializes.
    type Net: Classifier + TrainStep<Input = PictureBatch>;

    /// Multiplies the width of all layers except the first and the last by `share`, rounded to multiples of 8.
    #[must_use]
    fn narrowed(self, share: f64) -> Self;

    /// Initializes the network.
    fn init(&self, device: &Device) -> Self::Net;
}

/// He initialization for layers followed by a ReLU (He et al., 2015, section 2.2).
pub(super) const HE: Initializer =
    Initializer::KaimingNormal { gain: std::f64::consts::SQRT_2, fan_out_only: false };

/// 3 x 3 convolution without bias, followed by batch normalization and a ReLU.
#[derive(Module, Debug)]
pub(super) struct Normed {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Normed {
    pub(super) fn new(inputs: usize, outputs: usize, stride: usize, device: &Device) -> Self {
        let config = Conv2dConfig::new([inputs, outputs], [3, 3])
            .with_stride([stride, stride])
            .with_padding(PaddingConfig2d::Explicit(1, 1, 1, 1))
            .with_bias(false)
            .with_initializer(HE);
        Self { conv: config.init(device), norm: BatchNormConfig::new(outputs).init(device) }
    }

    /// Applies the layers, adding `shortcut` before the ReLU.
    pub(super) fn forward(&self, x: Tensor<4>, shortcut: Option<&Tensor<4>>) -> Tensor<4> {
        batch_norm_relu(&self.norm, self.conv.forward(x), shortcut)
    }
}

/// Returns the mean of each channel, `[batch, channels]`.
pub(super) fn pooled(x: Tensor<4>) -> Tensor<2> {
    let [batch, channels, height, width] = x.dims();
    x.reshape([batch, channels, height * width]).mean_dim(2).squeeze_dim(2)
}
