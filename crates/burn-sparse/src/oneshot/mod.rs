//! One-shot pruning of any safetensors file, without model code or training.

mod error;
mod file;
mod options;
mod tensor;

pub use error::OneShotError;
pub use file::prune_file;
pub use options::{OneShot, Orientation};
pub use tensor::PrunedTensor;
