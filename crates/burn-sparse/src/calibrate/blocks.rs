use std::marker::PhantomData;

use burn::tensor::Tensor;

/// Forward pass of a model, split into blocks that run one after the other.
///
/// Calibration records the inputs of one block at a time, and keeps the states between two blocks: its cost grows linearly with
/// the depth of the model, not quadratically. A model that is not split is one block: [`Whole`].
pub trait Blocks<M> {
    /// What one block passes to the next; the first block gets a batch.
    type State: Clone;

    /// Returns the number of blocks.
    fn len(&self, model: &M) -> usize;

    /// Returns `true` if there are no blocks.
    fn is_empty(&self, model: &M) -> bool {
        self.len(model) == 0
    }

    /// Runs one block.
    fn run(&self, model: &M, block: usize, state: &Self::State) -> Self::State;

    /// Returns the features of a state, by which reconstruction compares blocks; `None` if blocks cannot be reconstructed.
    ///
    /// # Shapes
    /// - output: `[batch, positions, features]`
    fn features(&self, _state: &Self::State) -> Option<Tensor<3>> {
        None
    }

    /// Returns the state with its features replaced by others of the same shape.
    fn with_features(&self, state: &Self::State, _features: Tensor<3>) -> Self::State {
        state.clone()
    }
}

/// Forward pass as one block. Every distinct input of a layer takes one pass over all batches.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::{Device, Distribution, Tensor};
/// use burn_sparse::calibrate::{CalibrateConfig, Whole};
/// use burn_sparse::nn::Linear;
/// use burn_sparse::prelude::*;
///
/// let device = Device::flex();
/// let model: Linear = LinearConfig::new(64, 32).init(&device).into();
/// let batches: Vec<Tensor<2>> =
///     (0..4).map(|_| Tensor::random([64, 64], Distribution::Default, &device)).collect();
///
/// let plan = Plan::new(&PruneConfig::new(Pattern::shfl_bw(8), 0.5), &model, Horizon::steps(0))?;
/// let forward = Whole::new(|model: &Linear, batch: &Tensor<2>| {
///     model.forward(batch.clone());
/// });
/// let calibrated = plan.calibrate(&model, &forward, batches, &CalibrateConfig::new(), |_| ())?;
/// let pruned = calibrated.attach(model)?.finish()?;
/// assert_eq!(pruned.sparsity(), 0.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Whole<S, F> {
    forward: F,
    batches: PhantomData<fn(&S)>,
}

impl<S, F> Whole<S, F> {
    /// Wraps a function that runs the model on a batch.
    pub fn new<M>(forward: F) -> Self
    where
        F: Fn(&M, &S),
    {
        Self { forward, batches: PhantomData }
    }
}

impl<M, S: Clone, F: Fn(&M, &S)> Blocks<M> for Whole<S, F> {
    type State = S;

    fn len(&self, _model: &M) -> usize {
        1
    }

    fn run(&self, model: &M, _block: usize, state: &S) -> S {
        (self.forward)(model, state);
        state.clone()
    }
}
