//! The tasks a recipe can name: a model, its data, its metric; and the run that trains one by its
//! recipe, resumable at any step.
//!
//! | task | model | data | metric |
//! |---|---|---|---|
//! | `glyphs-mlp` | [`Mlp`] 784-256-256-10 | built-in glyphs | accuracy |
//! | `mnist-mlp` | [`Mlp`] 784-512-512-10 | MNIST | accuracy |
//! | `cifar10-convnet` | [`ConvNet`] 32-64-128, 128 | CIFAR-10 | accuracy |
//! | `cifar10-resnet` | [`ResNet`] of 20 layers | CIFAR-10, shifted and mirrored | accuracy |
//! | `cifar10-resnet-large` | the same, four times as wide | the same | the same |
//! | `cifar10-vgg` | [`Vgg`] of 11 layers at half its width | the same | the same |
//! | `cifar10-vgg-large` | [`Vgg`] of 16 layers | the same | the same |
//! | `lstm-lm` | [`LstmLm`] two layers of 256 | Tiny Shakespeare, or any text | bits per character |
//! | `lstm-lm-large` | [`LstmLm`] two layers of 1024 | the same | the same |
//! | `translation` | [`Transformer`] 2 + 2 layers of 256 | Multi30k, English to German | BLEU |
//! | `translation-large` | [`Transformer`] 6 + 6 layers of 512 | the same | the same |

mod catalog;
mod classification;
mod initialize;
mod metric;
mod networks;
mod task;
mod tasks;

pub mod report;
pub mod run;
pub mod sweep;
pub mod translation;

pub use catalog::{TaskError, TaskVisitor, with_task};
pub use classification::Classifier;
pub use metric::Metric;
pub use networks::{
    ConvNet, ConvNetConfig, Decoding, ImageBatch, LstmLm, LstmLmConfig, Mlp, MlpConfig,
    PictureBatch, PictureNet, ResNet, ResNetConfig, TextBatch, Transformer, TransformerConfig,
    TranslationBatch, Vgg, VggConfig,
};
pub use task::{Samples, Task};
pub use tasks::{Cifar10Task, ImageTask, LstmLmTask, Sentences, TranslationTask};
