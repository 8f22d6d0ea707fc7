//! Packed weights on the CPU.

use std::sync::OnceLock;

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::{PackedPrimitive, PackedTensors};
use crate::Layout;
use crate::flex_tensor::{flex_ints, flex_tensor};
use crate::ops::{contiguous_weight, reads};

/// Primitives of a weight on the CPU without autodiff, created by the first product: creating them for every call would take
/// longer than the product of a small layer.
#[derive(Debug, Clone, Default)]
pub(crate) struct OnCpu(OnceLock<Option<Primitives>>);

#[derive(Debug, Clone)]
pub(crate) struct Primitives {
    pub(crate) packed: PackedPrimitive<Flex>,
    /// Set if the indices are known to be in bounds.
    checked: OnceLock<()>,
}

impl PackedTensors {
    /// Returns the weight on the CPU; `None` if it is on another device, autodiff tracks it, or kernels do not read its type.
    pub(crate) fn primitives(&self) -> Option<&Primitives> {
        let create = || {
            let values = flex_tensor(&self.values).filter(|values| reads(values.dtype()))?;
            let packed = contiguous_weight(self.on_cpu(values)?);
            let checked = OnceLock::new();
            if self.is_checked_on_cpu(&packed) {
                checked.get_or_init(|| ());
            }
            Some(Primitives { packed, checked })
        };
        self.on_cpu.0.get_or_init(create).as_ref()
    }

    /// Returns the weight on the CPU with these values; `None` if its indices are on another device.
    pub(crate) fn on_cpu(&self, values: FlexTensor) -> Option<PackedPrimitive<Flex>> {
        Some(PackedPrimitive {
            values,
            index: flex_ints(&self.index)?,
            offsets: flex_ints(&self.offsets)?,
            order: flex_ints(&self.order)?,
        })
    }

    /// Same as [`Self::is_checked`], for the tensors on the CPU that this weight was turned into.
    pub(crate) fn is_checked_on_cpu(&self, packed: &PackedPrimitive<Flex>) -> bool {
        let indices = [&packed.index, &packed.offsets, &packed.order];
        !matches!(self.layout, Layout::Balanced { .. })
            && self.checked.0.get_for(&indices) == Some((self.rows, self.cols, self.layout))
    }
}

impl Primitives {
    /// Returns `true` if the indices are known to be in bounds.
    pub(crate) fn is_checked(&self) -> bool {
        self.checked.get().is_some()
    }

    /// Records that a kernel has checked the indices of `weight`.
    pub(crate) fn set_checked(&self, weight: &PackedTensors) {
        if matches!(weight.layout, Layout::Balanced { .. }) {
            return;
        }
        weight.set_checked();
        self.checked.get_or_init(|| ());
    }
}
