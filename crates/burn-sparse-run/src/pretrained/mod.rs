//! Evaluation of pretrained models in Hugging Face's folder format.

mod perplexity;
mod prune;
mod similarity;

pub use perplexity::{Windows, perplexity};
pub use prune::prune_folder;
pub use similarity::{similarity, spearman};
