use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn::train::ClassificationOutput;
use burn_sparse::nn::{Activation, Linear, LinearConfig};

use super::narrowed::narrowed;
use super::steps::{classified, trained_by_classify};

/// Configuration of an [`Mlp`].
#[derive(Config, Debug)]
pub struct MlpConfig {
    /// Input features of a sample.
    pub inputs: usize,
    /// Features of each of the two hidden layers.
    pub hidden: usize,
    /// Number of classes.
    pub classes: usize,
}

/// Multilayer perceptron: two hidden layers with ReLU, and a head.
#[derive(Module, Debug)]
pub struct Mlp {
    fc1: Linear,
    fc2: Linear,
    head: Linear,
}

/// Batch of images with their classes.
#[derive(Debug, Clone)]
pub struct ImageBatch {
    /// Pixels of each image, `[batch, features]`.
    pub images: Tensor<2>,
    /// Class of each image, `[batch]`.
    pub targets: Tensor<1, Int>,
}

impl MlpConfig {
    /// Multiplies the width of the hidden layers by `share`, rounded to multiples of 8.
    #[must_use]
    pub fn narrowed(mut self, share: f64) -> Self {
        self.hidden = narrowed(self.hidden, share);
        self
    }

    /// Initializes the model.
    pub fn init(&self, device: &Device) -> Mlp {
        let linear = |inputs, outputs| LinearConfig::new(inputs, outputs).init(device);
        Mlp {
            fc1: linear(self.inputs, self.hidden),
            fc2: linear(self.hidden, self.hidden),
            head: linear(self.hidden, self.classes),
        }
    }
}

impl Mlp {
    /// Computes class scores.
    ///
    /// # Shapes
    /// - input: `[batch, inputs]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, images: Tensor<2>) -> Tensor<2> {
        let x = self.fc1.forward_activated(images, Activation::Relu);
        let x = self.fc2.forward_activated(x, Activation::Relu);
        self.head.forward(x)
    }

    fn classify(&self, batch: ImageBatch) -> ClassificationOutput {
        classified(self.forward(batch.images), batch.targets)
    }
}

trained_by_classify!(Mlp, ImageBatch);
