//! Models that score classes, of images or of the next token, with burn-train's steps.

mod convnet;
mod lstm_lm;
mod mlp;
mod narrowed;
mod pictures;
mod resnet;
mod steps;
mod transformer;
mod vgg;

pub use convnet::{ConvNet, ConvNetConfig};
pub use lstm_lm::{LstmLm, LstmLmConfig, TextBatch};
pub use mlp::{ImageBatch, Mlp, MlpConfig};
pub use pictures::{PictureBatch, PictureNet};
pub use resnet::{ResNet, ResNetConfig};
pub use steps::{Classifier, classified};
pub use transformer::{Decoding, Transformer, TransformerConfig, TranslationBatch};
pub use vgg::{Vgg, VggConfig};
