use crate::kernel_name::OnDevice;
use crate::{Activation, Layout};

/// The static half of a packed weight and of one product with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Outputs.
    pub rows: usize,
    /// Reduction.
    pub cols: usize,
    /// How values are laid out.
    pub layout: Layout,
    /// Applied in the store.
    pub activation: Activation,
    /// Whether the output may lie feature after feature in memory, where the kernel writes it so.
    pub(crate) features_major: bool,
    /// The kernel, where it has been chosen; otherwise the backend chooses.
    pub(crate) kernel: Option<OnDevice>,
    /// Whether the indices are known to fit, see [`Checked`](crate::Checked).
    pub(crate) checked: bool,
}
