//! Packed weights on the CPU.

use std::sync::OnceLock;

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::flex::{Primitives, reads};
use super::{PackedPrimitive, PackedTensors};
use crate::Layout;
use crate::flex_tensor::{flex_ints, flex_tensor};

impl PackedTensors {
    /// Returns the weight on the CPU; `None` if it is on another device, autodiff tracks it, or kernels do not read its type.
    pub(crate) fn primitives(&self) -> Option<&Primitives> {
        let create = || {
            let values = flex_tensor(&self.values).filter(|values| reads(values.dtype()))?;
            let packed = self.on_cpu(values)?.contiguous();
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

    /// Records that a kernel has checked the indices of these primitives.
    pub(crate) fn set_checked_on_cpu(&self, primitives: &Primitives) {
        if matches!(self.layout, Layout::Balanced { .. }) {
            return;
        }
        self.set_checked();
        primitives.checked.get_or_init(|| ());
    }
}
