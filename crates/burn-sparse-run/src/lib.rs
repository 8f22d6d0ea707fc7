//! Recipe files, the tasks that they name, and the runs, sweeps, and reports made from them.
//!
//! | task | model | data | metric |
//! |---|---|---|---|
//! | `glyphs-mlp` | [`Mlp`](burn_sparse_models::Mlp) 784-256-256-10 | built-in glyphs | accuracy |
//! | `mnist-mlp` | [`Mlp`](burn_sparse_models::Mlp) 784-512-512-10 | MNIST | accuracy |
//! | `cifar10-convnet` | [`ConvNet`](burn_sparse_models::ConvNet) 32-64-128, 128 | CIFAR-10 | accuracy |
//! | `cifar10-resnet` | [`ResNet`](burn_sparse_models::ResNet) with 20 layers | CIFAR-10, shifted and mirrored | accuracy |
//! | `cifar10-resnet-large` | the same, four times as wide | the same | the same |
//! | `cifar10-vgg` | [`Vgg`](burn_sparse_models::Vgg) with 11 layers at half width | the same | the same |
//! | `cifar10-vgg-large` | [`Vgg`](burn_sparse_models::Vgg) with 16 layers | the same | the same |
//! | `lstm-lm` | [`LstmLm`](burn_sparse_models::LstmLm), two layers of 256 | Tiny Shakespeare, or any text | bits per character |
//! | `lstm-lm-large` | [`LstmLm`](burn_sparse_models::LstmLm), two layers of 1024 | the same | the same |
//! | `translation` | [`Transformer`](burn_sparse_models::Transformer), 2 + 2 layers of 256 | Multi30k, English to German | BLEU |
//! | `translation-large` | [`Transformer`](burn_sparse_models::Transformer), 6 + 6 layers of 512 | the same | the same |
//! | `sentence-embedding` | pretrained [`Bert`](burn_sparse_models::Bert) | STS-B, or the lines of a text | Spearman |
//! | `causal-lm` | pretrained [`Llama`](burn_sparse_models::Llama) | a text | perplexity |

mod calibration_record;
mod catalog;
mod classification;
mod constant;
mod hash;
mod initialize;
mod latency;
mod metric;
pub mod pretrained;
pub mod recipe;
pub mod report;
pub mod run;
mod run_error;
mod scalar;
pub mod sweep;
mod task;
mod task_error;
mod tasks;
mod translation;

pub use calibration_record::CalibrationRecord;
pub use catalog::{TaskVisitor, with_task};
pub use classification::Classification;
pub(crate) use constant::constant;
pub use metric::Metric;
pub(crate) use scalar::{scalar, values};
pub use task::{CalibratedPruning, Loss, Samples, Task, Teacher};
pub use task_error::TaskError;
pub use tasks::{
    CausalLmTask, Cifar10Task, EmbeddingData, ImageTask, LanguageData, LstmLmTask,
    SentenceEmbeddingTask, Sentences, TranslationTask,
};
