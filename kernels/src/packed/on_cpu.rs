//! Packed weights on the CPU.

use burn::backend::Flex;
use burn::tensor::{Int, Tensor};
use burn_autodiff::Autodiff;
use burn_flex::FlexTensor;

use super::{PackedPrimitive, PackedTensors};
use crate::Layout;
use crate::flex_tensor::flex_tensor;

impl PackedTensors {
    /// Returns the weight on the CPU with these values; `None` if its indices are on another device.
    pub(crate) fn on_cpu(&self, values: FlexTensor) -> Option<PackedPrimitive<Flex>> {
        let int = |index: &Tensor<1, Int>| match index.is_autodiff() {
            true => index.clone().try_into_primitive::<Autodiff<Flex>>().ok(),
            false => flex_tensor(index),
        };
        Some(PackedPrimitive {
            values,
            index: int(&self.index)?,
            offsets: int(&self.offsets)?,
            order: int(&self.order)?,
        })
    }

    /// Same as [`Self::is_checked`], for the tensors on the CPU that this weight was turned into.
    pub(crate) fn is_checked_on_cpu(&self, packed: &PackedPrimitive<Flex>) -> bool {
        let indices = [&packed.index, &packed.offsets, &packed.order];
        !matches!(self.layout, Layout::Balanced { .. })
            && self.checked.0.get_for(&indices) == Some((self.rows, self.cols, self.layout))
    }
}
