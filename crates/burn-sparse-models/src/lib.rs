//! The tasks a recipe can name: a model, its data, its metric; and the run that trains one by its
//! recipe, resumable at any step.
//!
//! | task | model | data | metric |
//! |---|---|---|---|
//! | `glyphs-mlp` | [`Mlp`] 784-256-256-10 | built-in glyphs | accuracy |
//! | `mnist-mlp` | [`Mlp`] 784-512-512-10 | MNIST | accuracy |
//! | `cifar10-convnet` | [`ConvNet`] 32-64-128, 128 | CIFAR-10 | accuracy |
//! | `lstm-lm` | [`LstmLm`] two layers of 256 | Tiny Shakespeare, or any text | bits per character |
//! | `lstm-lm-large` | [`LstmLm`] two layers of 1024 | the same | the same |

mod catalog;
mod cifar10_task;
mod classification;
mod convnet;
mod image_task;
mod initialize;
mod lstm_lm;
mod lstm_lm_task;
mod metric;
mod mlp;
mod task;

pub mod report;
pub mod run;
pub mod sweep;

pub use catalog::{TaskError, TaskVisitor, with_task};
pub use cifar10_task::Cifar10Task;
pub use classification::Classifier;
pub use convnet::{ConvNet, ConvNetConfig, PictureBatch};
pub use image_task::ImageTask;
pub use lstm_lm::{LstmLm, LstmLmConfig, TextBatch};
pub use lstm_lm_task::LstmLmTask;
pub use metric::Metric;
pub use mlp::{ImageBatch, Mlp, MlpConfig};
pub use task::Task;
