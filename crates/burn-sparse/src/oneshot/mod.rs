//! One-shot pruning of any safetensors file: no model code, no training.

mod error;
mod file;
mod tensor;

pub use error::OneShotError;
pub use file::{OneShot, prune_file};
pub use tensor::{Orientation, PrunedTensor};
