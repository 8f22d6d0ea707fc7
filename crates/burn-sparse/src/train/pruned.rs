use std::collections::BTreeMap;

use burn::module::Module;
use burn_sparse_pattern::format::{FloatType, PackedEntry, View};
use burn_sparse_pattern::{Distribution, Mask, Packed, Pattern, PatternError, RowOrder};

use super::TrainError;
use super::gather::{Change, State, apply, gather};
use crate::nn::PackInto;
use crate::plan::{Plan, PlannedWeight};

/// A model whose every mask has been proven; dropped weights are zero in the stored weights too.
#[derive(Debug, Clone)]
pub struct Pruned<M> {
    /// The model, masks still attached.
    pub model: M,
    /// What was pruned.
    pub weights: Vec<PrunedWeight>,
    /// The plan it was pruned by.
    pub plan: Plan,
}

/// A pruned parameter.
#[derive(Debug, Clone)]
pub struct PrunedWeight {
    /// Its path in the module.
    pub name: String,
    /// How its stored weight is seen as a matrix.
    pub view: View,
    /// The pattern its mask obeys.
    pub pattern: Pattern,
    /// Which weights are kept.
    pub mask: Mask,
    /// The row order, for `shfl-bw` and `hinm`.
    pub row_order: Option<RowOrder>,
}

impl<M: Module> Pruned<M> {
    pub(crate) fn new(model: M, plan: &Plan, step: usize) -> Result<Self, TrainError> {
        let found = weights(&model, plan, step)?;
        for (found, planned) in found.iter().zip(&plan.weights) {
            let zeros = found.mask.rows() * found.mask.cols() - found.mask.kept();
            // One threshold for several layers decides in training how much each drops.
            let counted =
                found.pattern.counts_exactly() && planned.distribution != Distribution::Global;
            if counted && zeros != planned.zeros {
                let (name, expected) = (found.name.clone(), planned.zeros);
                return Err(TrainError::Zeros { name, expected, found: zeros });
            }
        }
        let changes = found.iter().map(|weight| {
            let keep = weight.view.to_stored(&weight.mask.to_bytes());
            let order = weight.row_order.clone().unwrap_or(RowOrder::identity(weight.mask.rows()));
            let row_order = order.as_slice().to_vec();
            (
                weight.name.clone(),
                Change { stays: Some(keep.clone()), keep, row_order, state_stays: None },
            )
        });
        let model = apply(model, &changes.collect());
        Ok(Self { model, weights: found, plan: plan.clone() })
    }

    /// The share of zeros of all pruned weights.
    pub fn sparsity(&self) -> f64 {
        sparsity(&self.weights)
    }

    /// The packed form of every pruned weight, by path.
    ///
    /// # Errors
    /// When a mask breaks its pattern, which [`Sparse::finish`](super::Sparse::finish) has excluded.
    pub fn packed(&self) -> Result<BTreeMap<String, Packed>, PatternError> {
        let names: Vec<&str> = self.weights.iter().map(|w| w.name.as_str()).collect();
        let mut states = gather(&self.model, &names);
        let pack = |weight: &PrunedWeight| {
            let base = states.remove(&weight.name).unwrap_or_default().base;
            let matrix = weight.view.to_matrix(&base);
            let order = weight.row_order.as_ref();
            let packed = Packed::pack(&weight.pattern, &matrix, &weight.mask, order)?;
            Ok((weight.name.clone(), packed))
        };
        self.weights.iter().map(pack).collect()
    }

    /// The model with packed weights: [`nn`](crate::nn) layers run sparse kernels on them, all others
    /// unpack when they read.
    ///
    /// # Errors
    /// As [`Self::packed`].
    pub fn pack(&self) -> Result<M, PatternError> {
        let packed = self.packed()?;
        let weights = self.weights.iter().filter_map(|weight| {
            let packed = packed.get(&weight.name)?.clone();
            let (view, pattern, layer) = (weight.view.clone(), weight.pattern, String::new());
            let entry = PackedEntry { layer, view, pattern, packed, float: FloatType::F32 };
            Some((weight.name.clone(), entry))
        });
        let into = PackInto::new(weights.collect());
        Ok(self.model.clone().materialize().apply_reparameterization(into))
    }
}

pub(crate) fn sparsity<'a>(weights: impl IntoIterator<Item = &'a PrunedWeight>) -> f64 {
    let counts = weights.into_iter().map(|w| (w.mask.rows() * w.mask.cols(), w.mask.kept()));
    let (all, kept) = counts.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    if all == 0 { 0.0 } else { (all - kept) as f64 / all as f64 }
}

/// The masks of a model, each checked against its pattern.
pub(crate) fn weights<M: Module>(
    model: &M,
    plan: &Plan,
    step: usize,
) -> Result<Vec<PrunedWeight>, TrainError> {
    let names: Vec<&str> = plan.weights.iter().map(|w| w.name.as_str()).collect();
    let states = gather(model, &names);
    let one = |planned: &PlannedWeight| {
        let (name, view) = (planned.name.clone(), planned.view.clone());
        let state = states.get(&name).filter(|state| !state.keep.is_empty());
        let state = state.ok_or_else(|| TrainError::Unmasked { name: name.clone() })?;
        let fault = |source| TrainError::Pattern { name: name.clone(), step, source };
        let mask = mask(planned, &state.keep, step)?;
        let moved = planned.pattern.has_row_order();
        let row_order =
            moved.then(|| RowOrder::new(state.row_order.clone())).transpose().map_err(fault)?;
        // A ramp passes through counts that `n-of-m` itself does not allow.
        if step >= planned.schedule.end {
            planned.pattern.check(&mask, row_order.as_ref()).map_err(fault)?;
        }
        Ok(PrunedWeight { name: name.clone(), view, pattern: planned.pattern, mask, row_order })
    };
    plan.weights.iter().map(one).collect()
}

/// The mask of a weight, from its bytes as the layer stores them.
pub(super) fn mask(weight: &PlannedWeight, keep: &[u8], step: usize) -> Result<Mask, TrainError> {
    let (name, view) = (weight.name.clone(), &weight.view);
    Mask::from_bytes(view.rows(), view.cols(), &view.to_matrix(keep))
        .map_err(|source| TrainError::Pattern { name, step, source })
}

/// A weight that became NaN or infinite after the last update would be saved as it is.
pub(crate) fn refuse_non_finite(
    states: &BTreeMap<String, State>,
    plan: &Plan,
    step: usize,
) -> Result<(), TrainError> {
    for planned in &plan.weights {
        let Some(state) = states.get(&planned.name) else { continue };
        let matrix = planned.view.to_matrix(&state.base);
        let cols = planned.view.cols();
        if let Some(at) = matrix.iter().position(|value| !value.is_finite()) {
            let (row, col, found) = (at / cols, at % cols, matrix[at]);
            let source = PatternError::Score { row, col, found };
            return Err(TrainError::Pattern { name: planned.name.clone(), step, source });
        }
    }
    Ok(())
}
