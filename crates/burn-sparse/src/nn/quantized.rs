use std::collections::BTreeMap;

use burn::module::{Module, Param, ParamId, Reparameterization, Reparameterizer};
use burn::tensor::{Device, Shape, Tensor, TensorData};
use burn_sparse_kernels::{Activation, Choice, QuantizedWeight, quantized_linear, quantizes};
use burn_sparse_pattern::format::{Entry, PackedEntry, View};

use super::dispatch::{KernelInput, dispatched};

/// Weight of a layer in 8 or 4 bits, pruned or not: the parameter holds only its scales.
///
/// Layers of [`nn`](crate::nn) multiply it with inputs in 8 bits. Other layers read the weight as usual, and unpack it on
/// every read.
#[derive(Module, Debug)]
pub struct QuantizedParam {
    #[module(skip)]
    weight: QuantizedWeight,
    /// `true` if the layer stores the transposed matrix.
    #[module(skip)]
    transposed: bool,
}

impl QuantizedParam {
    /// Returns the weight.
    pub(super) fn weight(&self) -> &QuantizedWeight {
        &self.weight
    }
}

/// Multiplies with a weight in 8 or 4 bits, and records it for the parameters `ids`. There is no choice to make: the dense product would
/// be slower.
pub(super) fn multiplied<const D: usize>(
    input: Tensor<D>,
    weight: &QuantizedWeight,
    ids: impl Iterator<Item = ParamId>,
    bias: Option<Tensor<1>>,
    activation: Activation,
) -> Tensor<D> {
    let choice = Choice::Sparse { name: weight.kernel(), predicted: None };
    let tokens = input.shape().num_elements() / weight.cols().max(1);
    ids.for_each(|id| dispatched(id, &choice, KernelInput::Tokens(tokens)));
    quantized_linear(input, weight, bias, activation)
}

impl Reparameterization for QuantizedParam {
    const NAME: &'static str = "quantized";

    /// Unpacks to the shape that the layer stores.
    fn apply<const D: usize>(&self, base: Tensor<D>) -> Tensor<D> {
        let (rows, cols) = (self.weight.rows(), self.weight.cols());
        let data = TensorData::new(self.weight.unpack(), [rows, cols]);
        let dense = Tensor::<2>::from_data(data, &base.device());
        let dense = if self.transposed { dense.transpose() } else { dense };
        let mut shape = [1; D];
        shape[..2].copy_from_slice(&dense.dims());
        dense.reshape(shape)
    }
}

/// Returns `true` if the weight of an entry runs in 8 or 4 bits on a device.
pub(crate) fn runs_in_bytes(entry: &Entry, device: &Device) -> bool {
    let is_matrix = match entry {
        Entry::Dense { shape, scales: Some(_), .. } => shape.len() == 2,
        Entry::Packed(PackedEntry { view: View::Linear { .. }, scales: Some(_), .. }) => true,
        _ => false,
    };
    is_matrix && quantizes(device)
}

/// Replaces weights by those in 8 or 4 bits, by path. Weights that do not [run so](runs_in_bytes) stay as they are.
pub(crate) struct QuantizeInto<'a> {
    entries: &'a BTreeMap<String, Entry>,
}

impl<'a> QuantizeInto<'a> {
    /// Quantizes the weights of those entries that have scales.
    pub(crate) fn new(entries: &'a BTreeMap<String, Entry>) -> Self {
        Self { entries }
    }
}

impl Reparameterizer for QuantizeInto<'_> {
    type Reparam = QuantizedParam;

    fn reparameterize<const D: usize>(
        &mut self,
        path: &str,
        param: Param<Tensor<D>>,
    ) -> (Param<Tensor<D>>, Option<QuantizedParam>) {
        let device = param.lazy_device();
        let found = self.entries.get(path).filter(|entry| runs_in_bytes(entry, &device));
        let (weight, scales, transposed) = match found {
            Some(Entry::Dense { shape, values, scales: Some(scales), .. }) => {
                let transposed = scales.axis == 1;
                let (stored, [rows, cols]) =
                    ((shape[0], shape[1]), [shape[scales.axis], shape[1 - scales.axis]]);
                let flipped = transposed.then(|| flipped(stored, values));
                let values = flipped.as_ref().unwrap_or(values);
                let weight = QuantizedWeight::from_dense((rows, cols), values, &scales.scales);
                (weight, &scales.scales, transposed)
            }
            Some(Entry::Packed(PackedEntry { packed, scales: Some(scales), .. })) => {
                (QuantizedWeight::from_packed(packed, scales), scales, true)
            }
            _ => return (param, None),
        };
        let scales = scales.as_slice().to_vec();
        let mut shape = [1; D];
        shape[0] = scales.len();
        let base = Tensor::<D>::from_data(TensorData::new(scales, Shape::new(shape)), &device);
        (Param::initialized(param.id, base), Some(QuantizedParam { weight, transposed }))
    }
}

/// Transposes row-major values.
fn flipped((rows, cols): (usize, usize), values: &[f32]) -> Vec<f32> {
    let mut flipped = Vec::with_capacity(values.len());
    for col in 0..cols {
        flipped.extend((0..rows).map(|row| values[row * cols + col]));
    }
    flipped
}
