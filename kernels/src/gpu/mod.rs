//! Choice among the kernels of `burn-sparse-cube` on Burn's CubeCL backend: CUDA, Vulkan and every other runtime.

mod kernel;

pub(crate) use kernel::GpuKernel;
