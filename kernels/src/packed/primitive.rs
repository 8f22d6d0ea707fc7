use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType, Flex};
use burn::tensor::{Int, Tensor};
use burn_autodiff::Autodiff;
use burn_flex::FlexTensor;

use super::PackedTensors;
use crate::ops::primitive;

/// Tensors of a packed weight on a backend, in its [`Layout`](crate::Layout).
#[derive(Debug, Clone, ExtensionType)]
#[cfg_attr(feature = "fusion", extension_type(fusion))]
pub struct PackedPrimitive<B: Backend> {
    /// Kept values, two axes.
    pub values: FloatTensor<B>,
    /// Column ids, or in-block columns as bytes.
    pub index: IntTensor<B>,
    /// Start of every group or tile.
    pub offsets: IntTensor<B>,
    /// Row at every position.
    pub order: IntTensor<B>,
}

impl PackedTensors {
    /// Returns the weight on the CPU with these values; `None` if its indices are on another device.
    pub(crate) fn on_cpu(&self, values: FlexTensor) -> Option<PackedPrimitive<Flex>> {
        let int = |index: &Tensor<1, Int>| match index.is_autodiff() {
            true => index.clone().try_into_primitive::<Autodiff<Flex>>().ok(),
            false => primitive(index),
        };
        Some(PackedPrimitive {
            values,
            index: int(&self.index)?,
            offsets: int(&self.offsets)?,
            order: int(&self.order)?,
        })
    }
}
