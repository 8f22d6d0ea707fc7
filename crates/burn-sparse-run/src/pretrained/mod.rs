//! Evaluation and one-shot pruning of pretrained models in Hugging Face's folder format.

mod calibration;
mod perplexity;
mod prune;
mod similarity;

pub use calibration::{CalibrationTexts, CalibrationTokens};
pub use perplexity::{Windows, perplexity};
pub use prune::{Calibration, Output, PrunedFolder, PrunedMatrix, prune_folder, round_folder};
pub use similarity::similarity;
