use std::sync::Arc;

use burn::backend::Flex;
use burn::tensor::{Device, Tensor};
use burn_sparse_cpu::Store;
use burn_sparse_cpu::int8::{self, ByteIsa, ByteWeight};
use burn_sparse_pattern::Packed;
use burn_sparse_pattern::format::Scales;

use crate::ops::{floats, on_cpu, tensor};
use crate::{Activation, KernelName};

/// Number of bytes that the last-level cache of most CPUs holds.
const CACHED: usize = 32 << 20;

/// Weight of integers in 8 or 4 bits with their scales, pruned or not, in the order that the CPU kernels read. Clones share it.
///
/// ```
/// use burn::tensor::{Device, Tensor};
/// use burn_sparse_kernels::{Activation, QuantizedWeight, quantized_linear};
/// use burn_sparse_pattern::format::Scales;
///
/// let scales = Scales::of_rows(vec![1. / 127., 2. / 127.]);
/// let weight = QuantizedWeight::from_dense((2, 3), &[1., 0., -1., 2., 2., 2.], &scales);
/// let x = Tensor::<2>::ones([1, 3], &Device::flex());
/// let y = quantized_linear(x, &weight, None, Activation::None);
/// assert_eq!(y.into_data().try_into_vec::<f32>().unwrap(), [0.0, 6.0]);
/// ```
#[derive(Debug, Clone)]
pub struct QuantizedWeight(Arc<ByteWeight>);

impl QuantizedWeight {
    /// Rounds a packed matrix to integers with these scales. `values` is the number of values in all weights of the model: a
    /// large model's weights are laid out to be read from memory, a small model's from a cache.
    ///
    /// # Panics
    /// Panics if there are too few scales, or a scale's block is not one that [`Scales`] chooses.
    pub fn from_packed(packed: &Packed, scales: &Scales, values: usize) -> Self {
        let expands = values > CACHED && ByteWeight::is_better_expanded(packed);
        let weight = if expands { ByteWeight::expanded } else { ByteWeight::packed };
        Self(Arc::new(weight(packed, scales)))
    }

    /// Rounds a row-major `[rows, cols]` matrix to integers with these scales.
    ///
    /// # Panics
    /// Same as [`Self::from_packed`], and if there are not `rows · cols` values.
    pub fn from_dense((rows, cols): (usize, usize), values: &[f32], scales: &Scales) -> Self {
        assert_eq!(values.len(), rows * cols, "values of a {rows}x{cols} matrix");
        Self(Arc::new(ByteWeight::dense((rows, cols), values, scales)))
    }

    /// Stacks the rows of all `parts`, so that layers that read the same input run as one, or returns `None` if they are laid
    /// out differently.
    #[must_use]
    pub fn stack(parts: &[Self]) -> Option<Self> {
        let parts: Vec<&ByteWeight> = parts.iter().map(|part| &*part.0).collect();
        Some(Self(Arc::new(ByteWeight::stack(&parts)?)))
    }

    /// Returns the number of outputs.
    pub fn rows(&self) -> usize {
        self.0.rows()
    }

    /// Returns the size of the reduction.
    pub fn cols(&self) -> usize {
        self.0.cols()
    }

    /// Returns the number of bytes in memory, all of which a product with one token reads.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the row-major matrix of floats that the integers represent.
    pub fn unpack(&self) -> Vec<f32> {
        self.0.unpack()
    }

    /// Appends a row of [`Self::unpack`] to `to`.
    ///
    /// # Panics
    /// Panics if there is no such row, or the weight is pruned.
    pub fn dense_row(&self, row: usize, to: &mut Vec<f32>) {
        self.0.dense_row(row, to);
    }

    /// Returns the name of the kernel that multiplies by this weight.
    pub fn kernel(&self) -> KernelName {
        let kernel = if self.0.is_int4() { "int4" } else { "int8" };
        KernelName::in_bytes(self.0.family(), kernel, ByteIsa::detect())
    }
}

/// Computes `y = activation(x · Wᵀ + bias)` on the CPU with inputs rounded to 8 bits and exact integer sums. Every 256 inputs of
/// a token share a step, 1/127 of the largest of them. The error is at most half a step times the magnitudes of a row's weights;
/// the outputs of a token that is not finite are NaN.
///
/// # Shapes
/// - `x`: `[..., cols]`
/// - `bias`: `[rows]`
/// - output: `[..., rows]`
///
/// # Panics
/// Panics if shapes do not fit, or `x` or `bias` is not an f32 tensor on the CPU without autodiff.
pub fn quantized_linear<const D: usize>(
    x: Tensor<D>,
    weight: &QuantizedWeight,
    bias: Option<Tensor<1>>,
    activation: Activation,
) -> Tensor<D> {
    let (mut shape, weight) = (x.shape(), &*weight.0);
    let (rows, cols) = (weight.rows(), weight.cols());
    assert_eq!(shape[D - 1], cols, "quantized_linear: x {shape:?}, weight {rows}x{cols}");
    if let Some(bias) = &bias {
        assert_eq!(bias.dims(), [rows], "quantized_linear: bias of {rows} outputs");
    }
    shape[D - 1] = rows;
    let (dtype, device) = (x.dtype(), x.device());
    let refused = || -> ! {
        panic!(
            "quantized_linear: {dtype:?} inputs on {device:?}; it takes F32 inputs on the CPU without autodiff"
        )
    };
    let Some(x) = on_cpu(&x) else { refused() };
    let bias = bias.map(|bias| on_cpu(&bias).unwrap_or_else(|| refused()));
    let bias = bias.as_ref().map(floats);
    let y = int8::run(ByteIsa::detect(), weight, floats(&x), Store { bias, activation });
    Tensor::from_primitive::<Flex>(tensor(y, shape))
}

/// Returns `true` if quantized weights run on this device.
pub fn quantizes(device: &Device) -> bool {
    *device == Device::flex() && !device.is_autodiff()
}
