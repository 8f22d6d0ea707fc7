use burn_sparse_pattern::{Axes, Distribution, PatternError};

use super::planned::tables;
use super::{PlanError, PlannedWeight, Unpruned};

/// Sets the target and the number of zeros of every weight from the distribution of its rule. A weight whose share rounds to
/// zero sparsity is not pruned.
pub(crate) fn distribute(
    weights: &mut Vec<PlannedWeight>,
    unpruned: &mut Vec<Unpruned>,
) -> Result<(), PlanError> {
    for indices in tables(weights).into_values() {
        let first = &weights[indices[0]];
        let by_shape = match first.distribution {
            Distribution::Uniform | Distribution::Global => continue,
            distribution => distribution,
        };
        let layers: Vec<Axes> = indices.iter().map(|&i| weights[i].view.axes()).collect();
        let spread = by_shape.by_shape(&layers, first.schedule.target);
        for (index, wish) in indices.into_iter().zip(spread) {
            let weight = &mut weights[index];
            let (rows, cols) = (weight.view.rows(), weight.view.cols());
            let nearest = weight.pattern.nearest_sparsity(rows, cols, wish);
            weight.schedule.target = nearest.map_err(|e| refuse(weight, e))?;
        }
    }
    let (pruned, dense): (Vec<_>, Vec<_>) =
        std::mem::take(weights).into_iter().partition(|weight| weight.schedule.target > 0.0);
    unpruned.extend(dense.into_iter().map(|weight| Unpruned {
        name: weight.name,
        shape: weight.view.stored_shape(),
        view: Some(weight.view),
        reason: "its share of the distribution leaves it dense".into(),
    }));
    *weights = pruned;
    for weight in weights {
        let (rows, cols) = (weight.view.rows(), weight.view.cols());
        let zeros = weight.pattern.target_zeros(rows, cols, weight.schedule.target);
        weight.zeros = zeros.map_err(|error| refuse(weight, error))?;
    }
    Ok(())
}

fn refuse(weight: &PlannedWeight, source: PatternError) -> PlanError {
    let (rows, cols) = (weight.view.rows(), weight.view.cols());
    PlanError::Pattern { name: weight.name.clone(), rows, cols, source }
}
