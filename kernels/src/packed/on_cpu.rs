//! Packed weights on the CPU.

use burn::backend::Flex;
use burn_flex::FlexTensor;

use super::{PackedPrimitive, PackedTensors};
use crate::Layout;
use crate::flex_tensor::flex_ints;

impl PackedTensors {
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
