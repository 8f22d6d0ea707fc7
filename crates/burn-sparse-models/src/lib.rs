//! Networks made of layers of `burn_sparse::nn`, and pretrained ones in [Hugging Face's folder format](huggingface).
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
pub mod huggingface;
mod networks;

pub use classification::{Classifier, classified};
pub use networks::{
    Bert, BertBlocks, BertConfig, ConvNet, ConvNetConfig, Decoding, ImageBatch, Llama, LlamaBlocks,
    LlamaCache, LlamaConfig, LstmLm, LstmLmConfig, Mlp, MlpConfig, PictureBatch, PictureNet,
    ResNet, ResNetConfig, TextBatch, Transformer, TransformerConfig, TranslationBatch, Vgg,
    VggConfig,
};
