use crate::kernel_name::OnDevice;
use crate::{Activation, PackedShape};

/// Everything about one product with a packed weight that is not a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Shape of the weight.
    pub shape: PackedShape,
    /// Activation fused into the store.
    pub activation: Activation,
    /// `true` if the output may be feature-major in memory, for kernels that write it so.
    pub(crate) features_major: bool,
    /// Kernel to run; `None` lets the backend choose.
    pub(crate) kernel: Option<OnDevice>,
    /// `true` if the indices are known to be in bounds; see [`Checked`](super::Checked).
    pub(crate) checked: bool,
}

impl Spec {
    pub(crate) const fn new(shape: PackedShape, activation: Activation) -> Self {
        Self { shape, activation, features_major: false, kernel: None, checked: false }
    }
}
