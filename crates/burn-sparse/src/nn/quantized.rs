use std::borrow::Cow;
use std::collections::BTreeMap;

use burn::module::{Module, Param, ParamId, Reparameterization, Reparameterizer};
use burn::tensor::{DType, Device, Shape, Tensor, TensorData};
use burn_sparse_kernels::{Activation, Choice, QuantizedWeight, quantized_linear, quantizes};
use burn_sparse_pattern::format::{DenseScales, Entry, PackedEntry, View};

use super::dispatch::{KernelInput, dispatched};

/// Weight of a layer in 8 or 4 bits, pruned or not: the parameter holds only its scales.
///
/// Layers of [`nn`](crate::nn) multiply it with inputs in 8 bits. Other layers read the weight as usual, and unpack it on
/// every read.
///
/// It is for inference: a record of the model has only the scales, and an optimizer does not change the integers. Save and load it
/// as a [`Checkpoint`](crate::checkpoint::Checkpoint).
#[derive(Module, Debug)]
pub struct QuantizedParam {
    #[module(skip)]
    weight: QuantizedWeight,
    #[module(skip)]
    view: View,
}

impl QuantizedParam {
    /// Returns the weight.
    pub(super) fn weight(&self) -> &QuantizedWeight {
        &self.weight
    }
}

/// Returns `true` if a product with this input and bias runs in 8 or 4 bits, which takes floats in f32 without gradients.
pub(super) fn runs_quantized<const D: usize>(input: &Tensor<D>, bias: Option<&Tensor<1>>) -> bool {
    quantizes(&input.device())
        && input.dtype() == DType::F32
        && bias.is_none_or(|bias| bias.dtype() == DType::F32 && !bias.is_autodiff())
}

/// Multiplies with a weight in 8 or 4 bits, and records the kernel for the parameters `ids`. There is no choice to make, since
/// the dense product would be slower.
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
        let stored = self.view.to_stored(&self.weight.unpack());
        Tensor::from_data(TensorData::new(stored, self.view.stored_shape()), &base.device())
    }
}

/// Returns `true` if the weight of an entry runs in 8 or 4 bits on a device.
pub(crate) fn runs_in_bytes(entry: &Entry, device: &Device) -> bool {
    view_in_bytes(entry).is_some() && quantizes(device)
}

/// Returns the matrix view of a weight with scales in a linear layer or an embedding. Convolutions run in floats: rounding and
/// moving their pixels takes more time than fewer bits save.
fn view_in_bytes(entry: &Entry) -> Option<Cow<'_, View>> {
    match entry {
        Entry::Dense { layer, shape, scales: Some(scales), .. } => {
            match (layer.as_str(), scales.axis, shape.as_slice()) {
                ("Linear", 1, &[cols, rows]) => Some(Cow::Owned(View::Linear { rows, cols })),
                ("Embedding", 0, &[rows, channels]) => {
                    Some(Cow::Owned(View::Conv { rows, channels, kernel: Vec::new() }))
                }
                _ => None,
            }
        }
        Entry::Packed(PackedEntry {
            view: view @ View::Linear { .. }, scales: Some(_), ..
        }) => Some(Cow::Borrowed(view)),
        _ => None,
    }
}

/// Replaces weights with weights in 8 or 4 bits, by path. Weights that do not [run in this form](runs_in_bytes) stay as they
/// are.
pub(crate) struct QuantizeInto<'a> {
    entries: &'a BTreeMap<String, Entry>,
    /// Number of values of all weights.
    values: usize,
}

impl<'a> QuantizeInto<'a> {
    /// Quantizes the weights of the entries that have scales.
    pub(crate) fn new(entries: &'a BTreeMap<String, Entry>) -> Self {
        let values = entries.values().map(|entry| match entry {
            Entry::Dense { values, .. } => values.len(),
            Entry::Packed(PackedEntry { packed, .. }) => packed.kept(),
        });
        Self { entries, values: values.sum() }
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
        let Some((entry, view)) = found.and_then(|entry| Some((entry, view_in_bytes(entry)?)))
        else {
            return (param, None);
        };
        let (weight, scales) = match entry {
            Entry::Dense { values, scales: Some(DenseScales { scales, .. }), .. } => {
                let matrix = match &*view {
                    View::Conv { .. } => Cow::Borrowed(values),
                    view @ View::Linear { .. } => Cow::Owned(view.to_matrix(values)),
                };
                let size = (view.rows(), view.cols());
                (QuantizedWeight::from_dense(size, &matrix, scales), scales)
            }
            Entry::Packed(PackedEntry { packed, scales: Some(scales), .. }) => {
                (QuantizedWeight::from_packed(packed, scales, self.values), scales)
            }
            _ => return (param, None),
        };
        let scales = scales.as_slice().to_vec();
        let mut shape = [1; D];
        shape[0] = scales.len();
        let base = Tensor::<D>::from_data(TensorData::new(scales, Shape::new(shape)), &device);
        (
            Param::initialized(param.id, base),
            Some(QuantizedParam { weight, view: view.into_owned() }),
        )
    }
}
