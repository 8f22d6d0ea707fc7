//! Packed weights as tensors.

mod on_cpu;
mod primitive;
mod rows;
mod spec;
mod stack;
mod tensors;

pub(crate) use on_cpu::OnCpu;
pub use primitive::PackedPrimitive;
pub use spec::Spec;
pub use tensors::{Checked, PackedTensors};
