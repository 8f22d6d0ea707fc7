//! Layout of activations in GPU memory: token-major as in Burn's tensors, or feature-major, as kernels for many tokens read
//! and write them.

use burn::backend::TensorMetadata;
use burn::tensor::Shape;
use burn_cubecl::kernel::into_contiguous;
use burn_cubecl::ops::numeric::empty_device_contiguous_dtype;
use burn_cubecl::tensor::CubeTensor;
use burn_sparse_cube::transpose::pitch;
use burn_sparse_cube::{Buffer, Major};
use cubecl::zspace::metadata::Metadata;

/// Number of bytes that kernels read at once.
const PIECE: u64 = 16;

/// Tensor `[tokens, features]` and its memory.
#[derive(Debug)]
pub(crate) struct Activations {
    pub(crate) tensor: CubeTensor,
    pub(crate) buffer: Buffer,
    pub(crate) major: Major,
}

impl Activations {
    /// Wraps a tensor as token-major; copies it if its layout differs.
    pub(crate) fn tokens_major(tensor: CubeTensor) -> Self {
        let tensor = into_contiguous(tensor);
        Self { buffer: buffer(tensor.clone()), tensor, major: Major::Tokens }
    }

    /// Wraps a tensor in its present layout if kernels can read it; otherwise copies it to token-major.
    pub(crate) fn as_it_lies(tensor: CubeTensor) -> Self {
        match features_major(&tensor) {
            Some(len) => {
                let buffer = Buffer { handle: tensor.handle.clone(), len };
                Self { buffer, tensor, major: Major::Features }
            }
            None => Self::tokens_major(tensor),
        }
    }

    /// Allocates undefined feature-major values for as many tokens as `like` has.
    pub(crate) fn features_major(like: &CubeTensor, features: usize) -> Self {
        let tokens = like.shape()[0];
        let pitch = pitch(tokens);
        let mut tensor = empty(like, [features, pitch]);
        let buffer = buffer(tensor.clone());
        *tensor.meta = Metadata::new([tokens, features], [1, pitch]);
        Self { tensor, buffer, major: Major::Features }
    }
}

/// Returns the number of elements, including the padding of the last row, if a tensor `[tokens, features]` is laid out as
/// `[features, pitch]`.
fn features_major(tensor: &CubeTensor) -> Option<usize> {
    if tensor.meta.is_tiled() {
        return None;
    }
    let [tokens, features] = tensor.shape().dims();
    let pitch = pitch(tokens);
    let len = features * pitch;
    let lies_so = tensor.meta.strides()[..] == [1, pitch];
    let whole = tensor.handle.size_in_used() >= (len * tensor.dtype.size()) as u64;
    let aligned = tensor.handle.offset_start.unwrap_or(0).is_multiple_of(PIECE);
    (lies_so && whole && aligned).then_some(len)
}

/// Allocates a tensor of undefined values.
pub(crate) fn empty(like: &CubeTensor, shape: [usize; 2]) -> CubeTensor {
    let (client, device) = (like.client.clone(), like.device.clone());
    empty_device_contiguous_dtype(client, device, Shape::new(shape), like.dtype)
}

/// Returns a tensor's memory, with contiguous elements.
pub(crate) fn buffer(tensor: CubeTensor) -> Buffer {
    let tensor = into_contiguous(tensor);
    Buffer { len: tensor.meta.shape().num_elements(), handle: tensor.handle }
}

#[cfg(all(test, any(feature = "wgpu", feature = "cuda")))]
mod tests {
    use burn::backend::ops::FloatTensorOps;
    use burn::tensor::TensorData;
    use burn_cubecl::{CubeBackend, CubeDevice};

    use super::*;

    fn tokens_major(tokens: usize, features: usize) -> CubeTensor {
        let numbers: Vec<f32> = (0..tokens * features).map(|at| at as f32).collect();
        // Flat: CUDA pads the rows of a matrix that it is given.
        let data = TensorData::new(numbers, [tokens * features]);
        let flat = CubeBackend::float_from_data(data, &CubeDevice::default());
        CubeBackend::float_reshape(flat, [tokens, features].into())
    }

    #[test]
    fn what_was_made_features_major_is_read_as_it_lies_and_nothing_else_is() {
        let x = tokens_major(13, 4);
        assert_eq!(Activations::as_it_lies(x.clone()).major, Major::Tokens);
        let y = Activations::features_major(&x, 5);
        assert_eq!((y.tensor.shape()[..].to_vec(), y.buffer.len), (vec![13, 5], 5 * 16));
        assert_eq!(Activations::as_it_lies(y.tensor.clone()).major, Major::Features);
        // A transposed tensor is feature-major, too, but without the padding that kernels read past the last token.
        let turned =
            |tokens, features| CubeBackend::float_transpose(tokens_major(features, tokens));
        assert_eq!(Activations::as_it_lies(turned(13, 4)).major, Major::Tokens);
        // It needs no padding if tokens fill whole pieces.
        assert_eq!(Activations::as_it_lies(turned(16, 4)).major, Major::Features);
        // The features of a slice are as far apart as those of its tensor, which has more tokens.
        let part = CubeBackend::float_slice(turned(16, 4), &[(0..7).into(), (0..4).into()]);
        assert_eq!(Activations::as_it_lies(part).major, Major::Tokens);
    }
}
