//! Tasks, each with a model, a dataset and a metric.

mod by_length;
mod causal_lm;
mod cifar10;
mod crop;
mod images;
mod lstm_lm;
mod sentence_embedding;
mod square_head;
mod translation;

pub use causal_lm::{CausalLmTask, LanguageData};
pub use cifar10::Cifar10Task;
pub use images::ImageTask;
pub use lstm_lm::LstmLmTask;
pub use sentence_embedding::{EmbeddingData, SentenceEmbeddingTask};
pub use translation::{Sentences, TranslationTask};
