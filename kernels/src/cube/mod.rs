//! The kernels of `burn-sparse-cube` on Burn's CubeCL backend: CUDA, Vulkan and every other runtime.

mod backend;
mod choice;

pub(crate) use choice::Kernel;
