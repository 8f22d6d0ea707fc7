//! Primitives of packed weights on the CPU.

use std::sync::OnceLock;

use burn::backend::Flex;
use burn::tensor::DType;

use super::PackedPrimitive;
use crate::flex_tensor::contiguous;

impl PackedPrimitive<Flex> {
    /// Makes all tensors contiguous.
    pub(crate) fn contiguous(self) -> Self {
        let Self { values, index, offsets, order } = self;
        let [values, index, offsets, order] = [values, index, offsets, order].map(contiguous);
        Self { values, index, offsets, order }
    }
}

/// Primitives of a weight on the CPU without autodiff, created by the first product: creating them for every call would take
/// longer than the product of a small layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct OnCpu(pub(super) OnceLock<Option<Primitives>>);

#[derive(Debug, Clone)]
pub(crate) struct Primitives {
    /// Contiguous tensors.
    pub(crate) packed: PackedPrimitive<Flex>,
    /// Set if the indices are known to be in bounds.
    pub(super) checked: OnceLock<()>,
}

impl Primitives {
    /// Returns `true` if the indices are known to be in bounds.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked.get().is_some()
    }
}

/// Returns `true` if the CPU's kernels read values of this type.
pub(crate) fn reads(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::BF16 | DType::F16)
}
