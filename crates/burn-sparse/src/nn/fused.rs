use std::sync::Arc;

use burn::tensor::Tensor;
use burn::tensor::module::linear;
use burn_sparse_kernels::{
    Activation, Address, Choice, Memo, PackedTensors, QuantizedWeight, Reason, dense_linear,
    select, sparse_linear_with,
};

use super::choices::{Call, LastChoice};
use super::dispatch::{KernelInput, dispatched};
use super::inputs::{not_needed, reading};
use super::linear::Linear;
use super::packed::{PackedParam, Unpacked};
use super::quantized::{QuantizedParam, multiplied, runs_quantized};

/// Linear layers that read the same input, fused into one: the gates of an LSTM, or query, key, and value. Their outputs are
/// concatenated in the order of the layers.
#[derive(Debug)]
pub(super) struct Fused {
    layers: Vec<Linear>,
    weight: FusedWeight,
    bias: Option<Tensor<1>>,
    choice: LastChoice,
    unpacked: Unpacked,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each fused layer, behind an Arc")]
enum FusedWeight {
    /// `[inputs, outputs]`.
    Dense(Tensor<2>),
    Packed(PackedTensors),
    Quantized(QuantizedWeight),
    /// In different forms: every layer runs separately.
    Apart,
}

/// Number of tokens below which Burn's dense product of one wide matrix is slower than those of its parts: it walks down
/// columns whose neighbouring elements are many pages apart.
const FEW: usize = 8;

impl Fused {
    /// Reads the weights of `layers`.
    pub(super) fn new<'a>(layers: impl Iterator<Item = &'a Linear>) -> Self {
        let layers: Vec<Linear> = layers.cloned().collect();
        let packed: Vec<PackedTensors> = layers
            .iter()
            .filter_map(|layer| {
                let packed = layer.weight.reparameterization::<PackedParam>()?;
                Some(PackedTensors::clone(&packed.tensors(&layer.weight)))
            })
            .collect();
        let quantized: Vec<QuantizedWeight> = layers
            .iter()
            .filter_map(|layer| layer.weight.reparameterization::<QuantizedParam>())
            .map(|quantized| quantized.weight().clone())
            .collect();
        let weight = match packed.len() {
            0 if quantized.len() == layers.len() => QuantizedWeight::stack(&quantized)
                .map_or(FusedWeight::Apart, FusedWeight::Quantized),
            _ if !quantized.is_empty() => FusedWeight::Apart,
            0 => together(layers.iter().map(|layer| layer.weight.val()), 1)
                .map_or(FusedWeight::Apart, FusedWeight::Dense),
            all if all == layers.len() => {
                PackedTensors::stack(&packed).map_or(FusedWeight::Apart, FusedWeight::Packed)
            }
            _ => FusedWeight::Apart,
        };
        let biases: Option<Vec<_>> =
            layers.iter().map(|layer| layer.bias.as_ref().map(|bias| bias.val())).collect();
        let weight = match biases {
            // Only some layers have a bias.
            None if layers.iter().any(|layer| layer.bias.is_some()) => FusedWeight::Apart,
            _ => weight,
        };
        let bias = biases.map(|biases| together(biases.into_iter(), 0));
        let (weight, bias) = match bias {
            Some(None) => (FusedWeight::Apart, None),
            bias => (weight, bias.flatten()),
        };
        Self { layers, weight, bias, choice: LastChoice::default(), unpacked: Unpacked::default() }
    }

    /// Returns the weight `[inputs, outputs of all layers]` and bias if all layers are dense.
    pub(super) fn dense(&self) -> Option<(Tensor<2>, Option<Tensor<1>>)> {
        match &self.weight {
            FusedWeight::Dense(weight) => Some((weight.clone(), self.bias.clone())),
            FusedWeight::Packed(_) | FusedWeight::Quantized(_) | FusedWeight::Apart => None,
        }
    }

    /// Maps `[..., inputs]` to `[..., outputs of all layers]`.
    pub(super) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let features = input.dims()[D - 1];
        if !reading(self.layers.iter().map(|layer| layer.weight.id), &input) {
            return not_needed(&input, self.layers.iter().map(|layer| layer.dims()[1]).sum());
        }
        let few = input.shape().num_elements() < FEW * features;
        match &self.weight {
            FusedWeight::Dense(weight) if !few => linear(input, weight.clone(), self.bias.clone()),
            FusedWeight::Packed(weight) => self.packed(weight, input),
            FusedWeight::Quantized(weight) if runs_quantized(&input, self.bias.as_ref()) => {
                let ids = self.layers.iter().map(|layer| layer.weight.id);
                multiplied(input, weight, ids, self.bias.clone(), Activation::None)
            }
            FusedWeight::Dense(_) | FusedWeight::Quantized(_) | FusedWeight::Apart => {
                let each = |layer: &Linear| layer.forward(input.clone());
                Tensor::cat(self.layers.iter().map(each).collect(), D - 1)
            }
        }
    }

    fn packed<const D: usize>(&self, weight: &PackedTensors, input: Tensor<D>) -> Tensor<D> {
        let tokens = input.shape().num_elements() / weight.cols().max(1);
        let call = Call::new(tokens, &input);
        let choice =
            self.choice.get_or(call, |call| select(weight, call.tokens, call.dtype, &call.device));
        for layer in &self.layers {
            dispatched(layer.weight.id, &choice, KernelInput::Tokens(tokens));
        }
        match choice {
            Choice::Sparse { name, .. } => {
                sparse_linear_with(input, weight, self.bias.clone(), Activation::None, name)
            }
            Choice::Dense { reason: Reason::Slower(_) } => {
                let dense = || side_by_side(&self.layers);
                let dense = self.unpacked.get_or(weight.values(), dense);
                dense_linear(input, dense, self.bias.clone())
            }
            Choice::Dense { .. } => {
                let dense = side_by_side(&self.layers);
                linear(input, dense, self.bias.clone())
            }
        }
    }
}

/// Concatenates tensors; `None` if they differ in type, or Burn has quantized them: they would get common scales.
fn together<const D: usize>(
    tensors: impl Iterator<Item = Tensor<D>>,
    axis: usize,
) -> Option<Tensor<D>> {
    let tensors: Vec<Tensor<D>> = tensors.collect();
    let first = tensors.first()?.dtype();
    let alike = |tensor: &Tensor<D>| tensor.dtype() == first && tensor.dtype().is_float();
    tensors.iter().all(alike).then(|| Tensor::cat(tensors, axis))
}

/// Concatenates weights to `[inputs, outputs of all layers]`.
fn side_by_side(layers: &[Linear]) -> Tensor<2> {
    Tensor::cat(layers.iter().map(|layer| layer.weight.val()).collect(), 1)
}

/// Cache of the last fused layers, valid for as long as the layers stay the same. Without it, a model that runs step by step
/// would copy its weights at every step.
#[derive(Debug, Clone, Default)]
pub(super) struct Fusion(Memo<Arc<Fused>>);

impl Fusion {
    /// Returns the fused layers.
    pub(super) fn of<'a>(&self, layers: impl Iterator<Item = &'a Linear> + Clone) -> Arc<Fused> {
        self.0.get_or(addresses(layers.clone()), || Arc::new(Fused::new(layers)))
    }
}

/// Returns the addresses of weights and biases; `None` if they may change in place or are computed on every read.
fn addresses<'a>(layers: impl Iterator<Item = &'a Linear>) -> Option<Box<[Address]>> {
    let mut addresses = Vec::new();
    for layer in layers {
        let base: &Tensor<2> = &layer.weight;
        if base.is_autodiff() {
            return None;
        }
        let address = Address::of(base)?;
        // Both of these keep their values elsewhere, and compute the weight on read.
        let packed = layer.weight.reparameterization::<PackedParam>().is_some()
            || layer.weight.reparameterization::<QuantizedParam>().is_some();
        if !packed && Address::of(&layer.weight.val()).as_ref() != Some(&address) {
            return None;
        }
        addresses.push(address);
        if let Some(bias) = &layer.bias {
            addresses.push(Address::of(&bias.val())?);
        }
    }
    Some(addresses.into())
}
