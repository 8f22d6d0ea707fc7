use std::collections::BTreeMap;

use burn::module::Module;
use burn_sparse_pattern::format::{FloatType, PackedEntry};
use burn_sparse_pattern::{Distribution, Packed, RowOrder};

use super::TrainError;
use super::masks::{self, PrunedWeight};
use super::state::{Change, WeightState, apply};
use crate::nn::PackInto;
use crate::prune::Plan;

/// A pruned model with verified masks. Dropped weights are zero in the stored weights too.
///
/// Returned by [`Sparse::finish`](super::Sparse::finish); `save` writes it as a packed checkpoint.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::optim::SgdConfig;
/// use burn::tensor::Device;
/// use burn_sparse::prelude::*;
///
/// let model = LinearConfig::new(64, 32).init(&Device::flex().autodiff());
/// let pruning = PruneConfig::new(Pattern::balanced(32), 0.75).with_ramp(Ramp::one_shot(Steps(1)));
/// let model = Plan::new(&pruning, &model, Horizon::steps(1))?.attach(model)?;
/// let model = model.optimizer_step(&mut SgdConfig::new().init(), 1e-3, Default::default());
///
/// let pruned = model.finish()?;
/// for weight in pruned.weights() {
///     println!("{}: {:.1} % zeros", weight.name, 100.0 * weight.mask.sparsity());
/// }
/// assert_eq!(pruned.sparsity(), 0.75);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Pruned<M> {
    model: M,
    weights: Vec<PrunedWeight>,
    packed: BTreeMap<String, Packed>,
    plan: Plan,
}

impl<M: Module> Pruned<M> {
    /// Verifies the masks in `states`, the state of all planned weights of `model`.
    pub(super) fn new(
        model: M,
        states: &BTreeMap<String, WeightState>,
        plan: &Plan,
        step: usize,
    ) -> Result<Self, TrainError> {
        let weights = masks::weights(states, plan, step)?;
        let mut packed = BTreeMap::new();
        let mut changes = BTreeMap::new();
        for (weight, planned) in weights.iter().zip(&plan.weights) {
            let name = weight.name.clone();
            let zeros = weight.mask.rows() * weight.mask.cols() - weight.mask.kept();
            // A threshold shared by several layers decides during training how much each drops.
            let counted = planned.distribution != Distribution::Global;
            let most = weight.pattern.zeros_tolerance(weight.mask.rows(), weight.mask.cols());
            if counted && zeros.abs_diff(planned.zeros) > most {
                return Err(TrainError::Zeros { name, expected: planned.zeros, found: zeros });
            }
            let matrix = states.get(&name).map(|state| weight.view.to_matrix(&state.base));
            let order = weight.row_order.as_ref();
            let fail = |source| TrainError::Pattern { name: name.clone(), step, source };
            let found =
                Packed::pack(&weight.pattern, &matrix.unwrap_or_default(), &weight.mask, order);
            packed.insert(name.clone(), found.map_err(fail)?);
            let keep = weight.view.to_stored(&weight.mask.to_bytes());
            let identity = RowOrder::identity(weight.mask.rows());
            let row_order = order.unwrap_or(&identity).as_slice().to_vec();
            changes.insert(name, Change { surviving: Some(keep.clone()), keep, row_order });
        }
        let model = apply(model, &changes);
        Ok(Self { model, weights, packed, plan: plan.clone() })
    }

    /// Returns the model, with its masks attached.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// Returns the pruned weights.
    pub fn weights(&self) -> &[PrunedWeight] {
        &self.weights
    }

    /// Returns the plan by which the model was pruned.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Returns the share of zeros of all pruned weights.
    pub fn sparsity(&self) -> f64 {
        masks::sparsity(&self.weights)
    }

    /// Returns the packed form of every pruned weight, by path.
    pub fn packed(&self) -> &BTreeMap<String, Packed> {
        &self.packed
    }

    /// Returns the model with packed weights: layers of [`nn`](crate::nn) run sparse kernels on them, other layers
    /// unpack them on every read.
    pub fn pack(&self) -> M {
        let weights = self.weights.iter().filter_map(|weight| {
            let packed = self.packed.get(&weight.name)?.clone();
            let (view, pattern, layer) = (weight.view.clone(), weight.pattern, String::new());
            let entry =
                PackedEntry { layer, view, pattern, packed, float: FloatType::F32, scales: None };
            Some((weight.name.clone(), entry))
        });
        let into = PackInto::new(weights.collect());
        self.model.clone().materialize().apply_reparameterization(into)
    }
}
