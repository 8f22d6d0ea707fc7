use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use burn::tensor::Tensor;
use burn::tensor::module::linear;
use burn_sparse_kernels::{
    Activation, Choice, PackedTensors, Place, Reason, select, sparse_linear_with,
};

use super::dispatch::{Input, dispatched};
use super::memory::{Call, Memory};
use super::{Linear, Packed};

/// Linear layers that read one input, as one layer: the gates of an LSTM; query, key and value.
///
/// Their outputs stand side by side, in the order of the layers.
#[derive(Debug)]
pub(crate) struct Fused {
    layers: Vec<Linear>,
    weight: Weight,
    bias: Option<Tensor<1>>,
    memory: Memory,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one for each fused layer, behind an Arc")]
enum Weight {
    /// `[inputs, outputs]`.
    Dense(Tensor<2>),
    Packed(PackedTensors),
    /// Packed in different ways: each layer runs by itself.
    Apart,
}

/// Tokens below which Burn's dense product of one wide matrix is slower than those of its parts: it walks down
/// columns whose neighbours are many pages apart.
const FEW: usize = 8;

impl Fused {
    /// Reads the weights of `layers` once.
    pub(crate) fn new<'a>(layers: impl Iterator<Item = &'a Linear>) -> Self {
        let layers: Vec<Linear> = layers.cloned().collect();
        let packed: Vec<PackedTensors> = layers
            .iter()
            .filter_map(|layer| {
                let packed = layer.weight.reparameterization::<Packed>()?;
                Some(packed.tensors(layer.weight.base()))
            })
            .collect();
        let weight = match packed.len() {
            0 => Weight::Dense(side_by_side(&layers, |layer| layer.weight.val())),
            all if all == layers.len() => {
                PackedTensors::stack(&packed).map_or(Weight::Apart, Weight::Packed)
            }
            _ => Weight::Apart,
        };
        let biases: Option<Vec<_>> =
            layers.iter().map(|layer| layer.bias.as_ref().map(|bias| bias.val())).collect();
        let weight = match biases {
            // Some layers have one and others not.
            None if layers.iter().any(|layer| layer.bias.is_some()) => Weight::Apart,
            _ => weight,
        };
        let bias = biases.map(|biases| Tensor::cat(biases, 0));
        Self { layers, weight, bias, memory: Memory::default() }
    }

    /// The weight `[inputs, outputs of all layers]` and bias, where no kernel but Burn's dense product runs.
    pub(crate) fn dense(&self) -> Option<(Tensor<2>, Option<Tensor<1>>)> {
        match &self.weight {
            Weight::Dense(weight) => Some((weight.clone(), self.bias.clone())),
            Weight::Packed(_) | Weight::Apart => None,
        }
    }

    /// `[..., inputs]` to `[..., outputs of all layers]`.
    pub(crate) fn forward<const D: usize>(&self, input: Tensor<D>) -> Tensor<D> {
        let features = input.dims()[D - 1];
        let few = input.shape().num_elements() < FEW * features;
        match &self.weight {
            Weight::Dense(weight) if !few => linear(input, weight.clone(), self.bias.clone()),
            Weight::Packed(weight) => self.packed(weight, input),
            Weight::Dense(_) | Weight::Apart => {
                let each = |layer: &Linear| layer.forward(input.clone());
                Tensor::cat(self.layers.iter().map(each).collect(), D - 1)
            }
        }
    }

    fn packed<const D: usize>(&self, weight: &PackedTensors, input: Tensor<D>) -> Tensor<D> {
        let tokens = input.shape().num_elements() / weight.cols.max(1);
        let call = Call::new(tokens, &input);
        let choice =
            self.memory.choice(call, |call| select(weight, call.tokens, call.dtype, &call.device));
        for layer in &self.layers {
            dispatched(layer.weight.id, &choice, Input::Tokens(tokens));
        }
        match choice {
            Choice::Sparse { name, .. } => {
                sparse_linear_with(input, weight, self.bias.clone(), Activation::None, name)
            }
            Choice::Dense { reason: Reason::Slower(_) } => {
                let dense = |_: &Tensor<2>| side_by_side(&self.layers, |l| l.weight.val());
                let dense = self.memory.dense(weight.values.clone(), dense);
                linear(input, dense, self.bias.clone())
            }
            Choice::Dense { reason: Reason::Unsupported(_) } => {
                let dense = side_by_side(&self.layers, |layer| layer.weight.val());
                linear(input, dense, self.bias.clone())
            }
        }
    }
}

/// `[inputs, outputs of all layers]`.
fn side_by_side(layers: &[Linear], weight: impl Fn(&Linear) -> Tensor<2>) -> Tensor<2> {
    Tensor::cat(layers.iter().map(weight).collect(), 1)
}

/// Keeps what was fused last for as long as the layers stay the same: a model that runs step by step would
/// otherwise copy its weights at every step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fusion(Arc<Mutex<Option<Kept>>>);

#[derive(Debug)]
struct Kept {
    /// Of the weights and biases that `fused` was made from. It holds them, so that nothing else comes to lie
    /// there.
    places: Vec<Place>,
    fused: Arc<Fused>,
}

impl Fusion {
    /// The layers as one.
    pub(crate) fn of<'a>(&self, layers: impl Iterator<Item = &'a Linear> + Clone) -> Arc<Fused> {
        let Some(places) = places(layers.clone()) else {
            return Arc::new(Fused::new(layers));
        };
        if let Some(kept) = &*self.kept()
            && kept.places == places
        {
            return kept.fused.clone();
        }
        // Not under the lock: to fuse may spread over threads, and one that waits may be given other work, another
        // call of these layers for one.
        let fused = Arc::new(Fused::new(layers));
        *self.kept() = Some(Kept { places, fused: fused.clone() });
        fused
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where the weights and biases lie; nothing where they may change in place, or are computed at every read.
fn places<'a>(layers: impl Iterator<Item = &'a Linear>) -> Option<Vec<Place>> {
    let mut places = Vec::new();
    for layer in layers {
        let base = layer.weight.base();
        if base.is_autodiff() {
            return None;
        }
        let place = Place::of(&base)?;
        let packed = layer.weight.reparameterization::<Packed>().is_some();
        if !packed && Place::of(&layer.weight.val()) != Some(place) {
            return None;
        }
        places.push(place);
        if let Some(bias) = &layer.bias {
            places.push(Place::of(&bias.val())?);
        }
    }
    Some(places)
}
