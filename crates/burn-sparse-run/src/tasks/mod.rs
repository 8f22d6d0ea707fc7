//! Tasks, each with a model, a dataset and a metric.

mod cifar10;
mod crop;
mod images;
mod lstm_lm;
mod translation;

pub use cifar10::Cifar10Task;
pub use images::ImageTask;
pub use lstm_lm::LstmLmTask;
pub use translation::{Sentences, TranslationTask};
