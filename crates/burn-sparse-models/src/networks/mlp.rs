use burn::config::Config;
use burn::module::Module;
use burn::tensor::{Device, Int, Tensor};
use burn::train::ClassificationOutput;
use burn_sparse::nn::{Activation, Linear, LinearConfig};

use crate::classification::{classified, trained_by_classify};

/// The size of an [`Mlp`].
#[derive(Config, Debug)]
pub struct MlpConfig {
    /// Features of a sample.
    pub inputs: usize,
    /// Features of both hidden layers.
    pub hidden: usize,
    /// Classes.
    pub classes: usize,
}

/// Two hidden layers with ReLU, and a head.
#[derive(Module, Debug)]
pub struct Mlp {
    fc1: Linear,
    fc2: Linear,
    head: Linear,
}

/// Samples with their classes.
#[derive(Debug, Clone)]
pub struct ImageBatch {
    /// `[batch, features]`.
    pub images: Tensor<2>,
    /// `[batch]`.
    pub targets: Tensor<1, Int>,
}

impl MlpConfig {
    /// Initializes the model.
    pub fn init(&self, device: &Device) -> Mlp {
        let linear = |inputs, outputs| Linear::new(&LinearConfig::new(inputs, outputs), device);
        Mlp {
            fc1: linear(self.inputs, self.hidden),
            fc2: linear(self.hidden, self.hidden),
            head: linear(self.hidden, self.classes),
        }
    }
}

impl Mlp {
    /// Class scores.
    ///
    /// # Shapes
    /// - input: `[batch, inputs]`
    /// - output: `[batch, classes]`
    pub fn forward(&self, images: Tensor<2>) -> Tensor<2> {
        let x = self.fc1.forward_with(images, Activation::Relu);
        let x = self.fc2.forward_with(x, Activation::Relu);
        self.head.forward(x)
    }

    fn classify(&self, batch: ImageBatch) -> ClassificationOutput {
        classified(self.forward(batch.images), batch.targets)
    }
}

trained_by_classify!(Mlp, ImageBatch);
