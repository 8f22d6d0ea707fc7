//! Networks made of layers of `burn_sparse::nn`.
//!
//! ```
//! use burn::tensor::{Device, Tensor};
//! use burn_sparse_models::MlpConfig;
//!
//! let device = Device::flex();
//! let model = MlpConfig::new(784, 512, 10).init(&device);
//! assert_eq!(model.forward(Tensor::ones([2, 784], &device)).dims(), [2, 10]);
//! ```

mod classification;
mod networks;

pub use classification::{Classifier, classified};
pub use networks::{
    ConvNet, ConvNetConfig, Decoding, ImageBatch, LstmLm, LstmLmConfig, Mlp, MlpConfig,
    PictureBatch, PictureNet, ResNet, ResNetConfig, TextBatch, Transformer, TransformerConfig,
    TranslationBatch, Vgg, VggConfig,
};
