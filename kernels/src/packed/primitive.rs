use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, ExtensionType};

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
