use std::fmt;

use burn::tensor::{DType, Device};

use crate::Layout;
use crate::flex::{Isa, Kernel};

/// Which kernel runs for a packed weight, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// A sparse kernel, by the name that reports print.
    Sparse(KernelName),
    /// Burn's dense operator on the unpacked weight.
    Dense {
        /// Why no sparse kernel runs.
        reason: &'static str,
    },
}

/// The name of a kernel: `flex-grouped-tiles-avx512`, `cube-balanced-decode-portable`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelName {
    backend: &'static str,
    family: &'static str,
    kernel: &'static str,
    isa: &'static str,
}

impl fmt::Display for KernelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{}", self.backend, self.family, self.kernel, self.isa)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sparse(name) => write!(f, "{name}"),
            Self::Dense { reason } => write!(f, "dense, because {reason}"),
        }
    }
}

/// Chooses the kernel for `n` tokens: the one answer that dispatch, reports and benchmarks share.
pub fn select(layout: Layout, n: usize, dtype: DType, device: &Device) -> Choice {
    let family = match layout {
        Layout::Grouped { .. } => "grouped",
        Layout::Balanced { .. } => "balanced",
        Layout::Rows => "unstructured",
    };
    let device = device.clone().inner();
    #[cfg(feature = "cubecl-backend")]
    if let burn::backend::DispatchDevice::Cube(device) = device.as_dispatch() {
        return match crate::cube::Kernel::choose(layout, n, dtype, device) {
            Ok(kernel) => {
                let (kernel, isa) = kernel.names();
                Choice::Sparse(KernelName { backend: "cube", family, kernel, isa })
            }
            Err(reason) => Choice::Dense { reason },
        };
    }
    if device != Device::flex() {
        return Choice::Dense { reason: "no sparse kernel is built for this device" };
    }
    if dtype != DType::F32 {
        return Choice::Dense { reason: "the CPU kernels compute in f32" };
    }
    let isa = Isa::detect();
    let kernel = Kernel::choose(layout, n, isa).name();
    Choice::Sparse(KernelName { backend: "flex", family, kernel, isa: isa.name() })
}
