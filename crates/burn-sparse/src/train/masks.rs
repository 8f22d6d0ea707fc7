//! Masks of a model on the host, checked against their patterns.

use std::collections::BTreeMap;

use burn_sparse_pattern::format::View;
use burn_sparse_pattern::{Mask, Pattern, RowOrder};

use super::TrainError;
use super::state::WeightState;
use crate::prune::{Plan, PlannedWeight};

/// A pruned parameter.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PrunedWeight {
    /// Path in the module.
    pub name: String,
    /// Matrix view of the stored weight.
    pub view: View,
    /// Pattern of the mask.
    pub pattern: Pattern,
    /// Kept weights.
    pub mask: Mask,
    /// Row order, for `shfl-bw` and `hinm`.
    pub row_order: Option<RowOrder>,
}

/// Sparsities and hashes of all masks of a model.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MaskSummary {
    /// Share of zeros of all planned weights.
    pub sparsity: f64,
    /// Share of zeros of the weights of each pattern.
    pub patterns: BTreeMap<String, f64>,
    /// Hash of each mask, by path.
    pub hashes: BTreeMap<String, String>,
}

impl MaskSummary {
    pub(super) fn of(weights: &[PrunedWeight]) -> Self {
        let mut patterns: BTreeMap<String, Vec<&PrunedWeight>> = BTreeMap::new();
        for weight in weights {
            patterns.entry(weight.pattern.to_string()).or_default().push(weight);
        }
        let patterns = patterns.into_iter();
        Self {
            sparsity: sparsity(weights),
            patterns: patterns.map(|(pattern, weights)| (pattern, sparsity(weights))).collect(),
            hashes: weights.iter().map(|w| (w.name.clone(), w.mask.hash())).collect(),
        }
    }
}

/// Returns the share of zeros of these weights together.
pub(super) fn sparsity<'a>(weights: impl IntoIterator<Item = &'a PrunedWeight>) -> f64 {
    let counts = weights.into_iter().map(|w| (w.mask.rows() * w.mask.cols(), w.mask.kept()));
    let (all, kept) = counts.fold((0, 0), |sum, next| (sum.0 + next.0, sum.1 + next.1));
    if all == 0 { 0.0 } else { (all - kept) as f64 / all as f64 }
}

/// Returns the masks of all planned weights. Final masks are checked against their patterns.
pub(super) fn weights(
    states: &BTreeMap<String, WeightState>,
    plan: &Plan,
    step: usize,
) -> Result<Vec<PrunedWeight>, TrainError> {
    let one = |planned: &PlannedWeight| {
        let (name, view) = (planned.name.clone(), planned.view.clone());
        let state = states.get(&name).filter(|state| !state.keep.is_empty());
        let state = state.ok_or_else(|| TrainError::Unmasked { name: name.clone() })?;
        let fault = |source| TrainError::Pattern { name: name.clone(), step, source };
        let mask = mask(planned, &state.keep, step)?;
        let permuted = planned.pattern.has_row_order();
        let row_order =
            permuted.then(|| RowOrder::new(state.row_order.clone())).transpose().map_err(fault)?;
        // A ramp passes through counts that `n-of-m` itself does not allow.
        if step >= planned.schedule.end {
            planned.pattern.check(&mask, row_order.as_ref()).map_err(fault)?;
        }
        Ok(PrunedWeight { name: name.clone(), view, pattern: planned.pattern, mask, row_order })
    };
    plan.weights.iter().map(one).collect()
}

/// Converts the mask bytes of a weight, in the order the layer stores them.
pub(super) fn mask(weight: &PlannedWeight, keep: &[u8], step: usize) -> Result<Mask, TrainError> {
    let (name, view) = (weight.name.clone(), &weight.view);
    Mask::from_bytes(view.rows(), view.cols(), &view.to_matrix(keep))
        .map_err(|source| TrainError::Pattern { name, step, source })
}

/// Returns an error for weights that became NaN or infinite after the last update, which would otherwise be saved.
pub(super) fn refuse_non_finite(
    states: &BTreeMap<String, WeightState>,
    plan: &Plan,
    step: usize,
) -> Result<(), TrainError> {
    for planned in &plan.weights {
        let Some(state) = states.get(&planned.name) else { continue };
        if state.base.iter().all(|value| value.is_finite()) {
            continue;
        }
        let matrix = planned.view.to_matrix(&state.base);
        let cols = planned.view.cols();
        if let Some(at) = matrix.iter().position(|value| !value.is_finite()) {
            let (row, col, found) = (at / cols, at % cols, matrix[at]);
            return Err(TrainError::NotFinite {
                name: planned.name.clone(),
                step,
                row,
                col,
                found,
            });
        }
    }
    Ok(())
}
