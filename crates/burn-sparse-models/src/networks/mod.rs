//! Models built from the layers of `burn_sparse::nn`.

mod bert;
mod convnet;
mod llama;
mod lstm_lm;
mod mlp;
mod pictures;
mod resnet;
mod transformer;
mod vgg;

pub use bert::{Bert, BertBlocks, BertConfig};
pub use convnet::{ConvNet, ConvNetConfig};
pub use llama::{Llama, LlamaBlocks, LlamaCache, LlamaConfig};
pub use lstm_lm::{LstmLm, LstmLmConfig, TextBatch};
pub use mlp::{ImageBatch, Mlp, MlpConfig};
pub use pictures::{PictureBatch, PictureNet};
pub use resnet::{ResNet, ResNetConfig};
pub use transformer::{Decoding, Transformer, TransformerConfig, TranslationBatch};
pub use vgg::{Vgg, VggConfig};
