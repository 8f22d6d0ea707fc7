use std::fmt;

use burn::tensor::{DType, Device};

use crate::Layout;
use crate::flex::{Isa, Kernel};

/// Which kernel runs for a packed weight, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// A sparse kernel, by the name that reports print.
    Sparse(String),
    /// Burn's dense operator on the unpacked weight.
    Dense {
        /// Why no sparse kernel runs.
        reason: String,
    },
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
    let dense = |reason: String| Choice::Dense { reason };
    if device.clone().inner() != Device::flex() {
        return dense(format!("no sparse kernel is built for {device:?}"));
    }
    if dtype != DType::F32 {
        return dense(format!("the CPU kernels compute in f32, not {dtype:?}"));
    }
    let isa = Isa::detect();
    let family = match layout {
        Layout::Grouped { .. } => "grouped",
        Layout::Balanced { .. } => "balanced",
        Layout::Rows => "unstructured",
    };
    let kernel = Kernel::choose(layout, n, isa);
    Choice::Sparse(format!("flex-{family}-{}-{}", kernel.name(), isa.name()))
}
