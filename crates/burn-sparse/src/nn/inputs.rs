//! Recording of the inputs that layers read.

use std::cell::RefCell;
use std::collections::BTreeSet;

use burn::module::ParamId;
use burn::tensor::Tensor;
use burn_sparse_kernels::{Address, Window};

/// Input that weights are multiplied with.
pub(crate) struct LayerInput {
    /// Weights that read the input.
    pub(crate) weights: Vec<ParamId>,
    /// The input.
    pub(crate) values: InputValues,
    address: Option<Address>,
}

impl LayerInput {
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
pub(crate) enum InputValues {
    /// `[tokens, features]`.
    Tokens(Tensor<2>),
    /// Images `[batch, channels, height, width]`, and the windows that a convolution takes of them.
    Pictures(Tensor<4>, Window),
}

struct Recorder {
    /// Weights whose inputs are recorded; `None` for all.
    wanted: Option<BTreeSet<ParamId>>,
    inputs: Vec<LayerInput>,
}

thread_local! {
    static RECORDER: RefCell<Option<Recorder>> = const { RefCell::new(None) };
}

/// Runs `forward`, and returns its result with the inputs of the weights `wanted`, of all weights if it is `None`, in the
/// order in which they are read. Weights that read the same tensor share one input.
pub(crate) fn record_inputs<R>(
    wanted: Option<BTreeSet<ParamId>>,
    forward: impl FnOnce() -> R,
) -> (R, Vec<LayerInput>) {
    let outer = RECORDER.replace(Some(Recorder { wanted, inputs: Vec::new() }));
    let result = forward();
    let recorder = RECORDER.replace(outer);
    (result, recorder.map_or_else(Vec::new, |recorder| recorder.inputs))
}

/// Tells the recorder of this thread, if there is one, what weights are about to read.
pub(super) fn reading<const D: usize>(weights: impl Iterator<Item = ParamId>, input: &Tensor<D>) {
    RECORDER.with_borrow_mut(|recorder| {
        let Some(recorder) = recorder else { return };
        recorder.add(weights, Address::of(input), || {
            let features = input.dims()[D - 1];
            let tokens = input.shape().num_elements() / features.max(1);
            InputValues::Tokens(input.clone().reshape([tokens, features]))
        });
    });
}

/// Tells the recorder of this thread, if there is one, what a convolution is about to read.
pub(super) fn reading_pictures(weight: ParamId, input: &Tensor<4>, window: Window) {
    RECORDER.with_borrow_mut(|recorder| {
        let Some(recorder) = recorder else { return };
        let pictures = || InputValues::Pictures(input.clone(), window);
        // Other convolutions may take other windows of the same images.
        recorder.add(std::iter::once(weight), None, pictures);
    });
}

impl Recorder {
    fn add(
        &mut self,
        weights: impl Iterator<Item = ParamId>,
        address: Option<Address>,
        values: impl FnOnce() -> InputValues,
    ) {
        let wanted = |id: &ParamId| self.wanted.as_ref().is_none_or(|wanted| wanted.contains(id));
        let weights: Vec<ParamId> = weights.filter(wanted).collect();
        if weights.is_empty() {
            return;
        }
        let same = |input: &&mut LayerInput| address.is_some() && input.address == address;
        match self.inputs.iter_mut().find(same) {
            // A fused layer that falls apart reads once as a whole, and once for every part.
            Some(input) => {
                let new = weights.into_iter().filter(|id| !input.weights.contains(id));
                let new: Vec<ParamId> = new.collect();
                input.weights.extend(new);
            }
            None => self.inputs.push(LayerInput { weights, values: values(), address }),
        }
    }
}
