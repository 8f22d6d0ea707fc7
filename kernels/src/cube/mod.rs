//! The kernels of `burn-sparse-cube` on Burn's CubeCL backend: CUDA, Vulkan and every other runtime.

mod activations;
mod backend;
mod choice;
mod measure;

pub(crate) use choice::Kernel;
pub(crate) use measure::{Measured, measured};
