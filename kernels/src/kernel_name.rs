use std::fmt;

use burn_sparse_cpu::int8::ByteIsa;
use burn_sparse_cpu::{CpuKernel, Isa};

#[cfg(feature = "cubecl-backend")]
use crate::gpu::GpuKernel;

/// Name of a kernel: `flex-grouped-tiles-avx512`, `cube-balanced-decode-portable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelName {
    backend: &'static str,
    pub(crate) family: &'static str,
    kernel: &'static str,
    isa: &'static str,
    pub(crate) on_device: OnDevice,
}

/// Kernel of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OnDevice {
    Cpu(CpuKernel),
    /// Kernel for weights in 8 or 4 bits; each weight has only one.
    CpuBytes,
    #[cfg(feature = "cubecl-backend")]
    Gpu(GpuKernel),
}

impl OnDevice {
    /// Returns the kernel if it runs on the CPU.
    pub(crate) fn cpu(self) -> Option<CpuKernel> {
        match self {
            Self::Cpu(kernel) => Some(kernel),
            Self::CpuBytes => None,
            #[cfg(feature = "cubecl-backend")]
            Self::Gpu(_) => None,
        }
    }

    /// Returns the kernel if it runs on a GPU.
    #[cfg(feature = "cubecl-backend")]
    pub(crate) fn gpu(self) -> Option<GpuKernel> {
        match self {
            Self::Cpu(_) | Self::CpuBytes => None,
            Self::Gpu(kernel) => Some(kernel),
        }
    }
}

impl KernelName {
    pub(crate) fn on_cpu(family: &'static str, kernel: CpuKernel, isa: Isa) -> Self {
        let (on_device, isa) = (OnDevice::Cpu(kernel), isa.name());
        Self { backend: "flex", family, kernel: kernel.name(), isa, on_device }
    }

    pub(crate) fn in_bytes(family: &'static str, kernel: &'static str, isa: ByteIsa) -> Self {
        let isa = isa.name();
        Self { backend: "flex", family, kernel, isa, on_device: OnDevice::CpuBytes }
    }

    #[cfg(feature = "cubecl-backend")]
    pub(crate) fn on_gpu(family: &'static str, kernel: GpuKernel) -> Self {
        let ((name, isa), on_device) = (kernel.names(), OnDevice::Gpu(kernel));
        Self { backend: "cube", family, kernel: name, isa, on_device }
    }

    /// Returns `true` if the kernel reads and writes feature-major activations, and transposes others; see
    /// [`sparse_linear_features_major`](crate::sparse_linear_features_major).
    pub fn is_features_major(&self) -> bool {
        match self.on_device {
            OnDevice::Cpu(_) | OnDevice::CpuBytes => false,
            #[cfg(feature = "cubecl-backend")]
            OnDevice::Gpu(kernel) => kernel.is_features_major(),
        }
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.backend, self.family, self.kernel, self.isa)
    }
}
