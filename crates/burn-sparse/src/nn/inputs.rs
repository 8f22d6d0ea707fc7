//! Recording of the inputs that layers read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use burn::module::ParamId;
use burn::tensor::Tensor;
use burn_sparse_kernels::{Address, Window};

use super::recording::recording;

/// Input that weights are multiplied with.
#[derive(Clone)]
pub(crate) struct LayerInput {
    /// Weights that read the input.
    pub(crate) weights: Vec<ParamId>,
    /// The input.
    pub(crate) values: InputValues,
    /// Its memory, and its features: a reshaped tensor is another input.
    address: Option<(Address, usize)>,
}

impl LayerInput {
    /// Returns the number of elements.
    pub(crate) fn elements(&self) -> usize {
        match &self.values {
            InputValues::Tokens(tokens) => tokens.shape().num_elements(),
            InputValues::Pictures(pictures, _) => pictures.shape().num_elements(),
        }
    }

    /// Returns the number of columns of the matrices that read the input.
    pub(crate) fn features(&self) -> usize {
        match &self.values {
            InputValues::Tokens(tokens) => tokens.dims()[1],
            InputValues::Pictures(pictures, window) => {
                pictures.dims()[1] * window.kernel.iter().product::<usize>()
            }
        }
    }
}

/// Values of an input.
#[derive(Clone)]
pub(crate) enum InputValues {
    /// `[tokens, features]`.
    Tokens(Tensor<2>),
    /// Images `[batch, channels, height, width]`, and the windows that a convolution reads from them.
    Pictures(Tensor<4>, Window),
}

struct Recorder {
    wanted: BTreeSet<ParamId>,
    inputs: Vec<LayerInput>,
    /// Number of inputs after which layers stop multiplying.
    enough: usize,
    /// `true` if there were more.
    late: bool,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Runs `forward`, and returns its result with the inputs of the weights `wanted` in the order in which they are read. Weights
/// that read the same tensor share one input.
pub(crate) fn record_inputs<R>(
    wanted: BTreeSet<ParamId>,
    forward: impl FnOnce() -> R,
) -> (R, Vec<LayerInput>) {
    let (result, recorder) = record(wanted, usize::MAX, forward);
    (result, recorder.inputs)
}

/// Runs `forward` only for the first `count` inputs of a weight: once they are recorded, layers return zeros instead of
/// multiplying. Returns `None` if the weight reads more inputs than that.
pub(crate) fn record_first<R>(
    wanted: ParamId,
    count: usize,
    forward: impl FnOnce() -> R,
) -> Option<Vec<LayerInput>> {
    let (_, recorder) = record(BTreeSet::from([wanted]), count, forward);
    (!recorder.late).then_some(recorder.inputs)
}

fn record<R>(
    wanted: BTreeSet<ParamId>,
    enough: usize,
    forward: impl FnOnce() -> R,
) -> (R, Recorder) {
    let recorder = Recorder { wanted, inputs: Vec::new(), enough, late: false };
    recording(&RECORDER, recorder, forward)
}

/// Gives the recorder of this thread, if there is one, the input that weights are about to read. Returns `false` if their
/// product is not needed.
#[must_use]
pub(super) fn reading<const D: usize>(
    weights: impl Iterator<Item = ParamId>,
    input: &Tensor<D>,
) -> bool {
    RECORDER.with_borrow_mut(|recorder| {
        let Some(recorder) = recorder else { return true };
        let features = input.dims()[D - 1];
        recorder.add(weights, Address::of(input).map(|address| (address, features)), || {
            let tokens = input.shape().num_elements() / features.max(1);
            InputValues::Tokens(input.clone().reshape([tokens, features]))
        })
    })
}

/// Gives the recorder of this thread, if there is one, the input that a convolution is about to read. Returns `false` if its
/// product is not needed.
#[must_use]
pub(super) fn reading_pictures(weight: ParamId, input: &Tensor<4>, window: Window) -> bool {
    RECORDER.with_borrow_mut(|recorder| {
        let Some(recorder) = recorder else { return true };
        let pictures = || InputValues::Pictures(input.clone(), window);
        // Other convolutions may take other windows of the same images.
        recorder.add(std::iter::once(weight), None, pictures)
    })
}

/// Returns zeros in place of a product with this many outputs that is not needed.
pub(super) fn not_needed<const D: usize>(input: &Tensor<D>, outputs: usize) -> Tensor<D> {
    let mut shape = input.shape();
    shape[D - 1] = outputs;
    Tensor::zeros(shape, (&input.device(), input.dtype()))
}

impl Recorder {
    /// Records an input if it is wanted. Returns `true` if more are needed.
    fn add(
        &mut self,
        weights: impl Iterator<Item = ParamId>,
        address: Option<(Address, usize)>,
        values: impl FnOnce() -> InputValues,
    ) -> bool {
        let weights: Vec<ParamId> = weights.filter(|id| self.wanted.contains(id)).collect();
        if weights.is_empty() {
            return self.inputs.len() < self.enough;
        }
        let full = self.inputs.len() == self.enough;
        let same = |input: &&mut LayerInput| address.is_some() && input.address == address;
        match self.inputs.iter_mut().find(same) {
            // A fused layer whose parts run separately reads once as a whole, and once for every part.
            Some(input) => {
                let new = weights.into_iter().filter(|id| !input.weights.contains(id));
                let new: Vec<ParamId> = new.collect();
                input.weights.extend(new);
            }
            None if full => self.late = true,
            None => self.inputs.push(LayerInput { weights, values: values(), address }),
        }
        self.inputs.len() < self.enough
    }
}
