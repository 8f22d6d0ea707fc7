use burn::backend::Flex;
use burn::tensor::{DType, Int, Tensor};
use burn_flex::FlexTensor;
use half::{bf16, f16};

/// Where the elements of a tensor on the CPU lie. Two tensors in one place are the same while both are
/// held: nobody writes to what somebody else holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    first: usize,
    len: usize,
    dtype: DType,
}

impl Place {
    /// The place of floats; nothing where that cannot be told.
    pub fn of<const D: usize>(tensor: &Tensor<D>) -> Option<Self> {
        Self::of_primitive(&tensor.clone().try_into_primitive::<Flex>().ok()?)
    }

    /// The place of an index; nothing where that cannot be told.
    pub fn of_index(tensor: &Tensor<1, Int>) -> Option<Self> {
        Self::of_primitive(&tensor.clone().try_into_primitive::<Flex>().ok()?)
    }

    fn of_primitive(tensor: &FlexTensor) -> Option<Self> {
        fn ends<E>(elements: &[E]) -> (usize, usize) {
            (elements.as_ptr().addr(), elements.len())
        }
        let dtype = tensor.dtype();
        let (first, len) = match dtype {
            DType::F32 => ends(tensor.as_slice::<f32>()?),
            DType::BF16 => ends(tensor.as_slice::<bf16>()?),
            DType::F16 => ends(tensor.as_slice::<f16>()?),
            DType::I32 => ends(tensor.as_slice::<i32>()?),
            DType::U8 => ends(tensor.as_slice::<u8>()?),
            _ => return None,
        };
        Some(Self { first, len, dtype })
    }
}
