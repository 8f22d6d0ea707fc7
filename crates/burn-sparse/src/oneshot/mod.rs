//! One-shot pruning of any safetensors file, sharded or not, without model code or training.

mod error;
mod file;
mod input;
mod options;
mod tensor;

pub use error::OneShotError;
pub use file::{pack_file, prune_file};
pub use options::{OneShot, Orientation};
pub use tensor::PrunedTensor;
