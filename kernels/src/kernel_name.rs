use std::fmt;

use crate::flex::{self, Isa};

/// The name of a kernel: `flex-grouped-tiles-avx512`, `cube-balanced-decode-portable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelName {
    backend: &'static str,
    pub(crate) family: &'static str,
    kernel: &'static str,
    isa: &'static str,
    pub(crate) on_device: OnDevice,
}

/// A kernel itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum OnDevice {
    Flex(flex::Kernel),
    #[cfg(feature = "cubecl-backend")]
    Cube(crate::cube::Kernel),
}

impl OnDevice {
    /// The kernel of the CPU, if it is one.
    pub(crate) fn flex(self) -> Option<flex::Kernel> {
        match self {
            Self::Flex(kernel) => Some(kernel),
            #[cfg(feature = "cubecl-backend")]
            Self::Cube(_) => None,
        }
    }

    /// The kernel of a GPU, if it is one.
    #[cfg(feature = "cubecl-backend")]
    pub(crate) fn cube(self) -> Option<crate::cube::Kernel> {
        match self {
            Self::Flex(_) => None,
            Self::Cube(kernel) => Some(kernel),
        }
    }
}

impl KernelName {
    pub(crate) fn on_cpu(family: &'static str, kernel: flex::Kernel, isa: Isa) -> Self {
        let (on_device, isa) = (OnDevice::Flex(kernel), isa.name());
        Self { backend: "flex", family, kernel: kernel.name(), isa, on_device }
    }

    #[cfg(feature = "cubecl-backend")]
    pub(crate) fn on_gpu(family: &'static str, kernel: crate::cube::Kernel) -> Self {
        let ((name, isa), on_device) = (kernel.names(), OnDevice::Cube(kernel));
        Self { backend: "cube", family, kernel: name, isa, on_device }
    }

    /// Whether it takes and gives activations feature after feature, and transposes those that lie otherwise:
    /// what [`sparse_linear_features_major`](crate::sparse_linear_features_major) is for.
    pub fn is_features_major(&self) -> bool {
        match self.on_device {
            OnDevice::Flex(_) => false,
            #[cfg(feature = "cubecl-backend")]
            OnDevice::Cube(kernel) => kernel.is_features_major(),
        }
    }
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.backend, self.family, self.kernel, self.isa)
    }
}
