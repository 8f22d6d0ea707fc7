//! Packed weights as tensors.

mod flex;
mod on_cpu;
mod primitive;
mod rows;
mod spec;
mod stack;
mod tensors;

pub(crate) use flex::{OnCpu, reads};
pub use primitive::PackedPrimitive;
pub use spec::Spec;
pub use tensors::{Checked, PackedTensors};
