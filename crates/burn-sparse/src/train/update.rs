use std::collections::BTreeMap;
use std::time::Instant;

use burn::module::Module;
use burn_sparse_pattern::{Pattern, PatternError, RowOrder, Scores, Search, Start};

use super::gather::{Change, State, apply, gather};
use super::{Journal, TrainError};
use crate::plan::{Plan, PlannedWeight};
use crate::recipe::{Regroup, Regrow, Score};

/// Makes the mask updates that are due once `step` optimizer steps are done.
///
/// After an error masks stay as they are, and the journal keeps the error for `finish`.
pub(crate) fn update<M: Module>(module: M, plan: &Plan, step: usize, journal: &mut Journal) -> M {
    let due: Vec<&PlannedWeight> =
        plan.weights.iter().filter(|weight| weight.schedule.is_update(step)).collect();
    if due.is_empty() || journal.fault.is_some() {
        return module;
    }
    let span = tracing::info_span!("mask_update", step, weights = due.len());
    let _entered = span.enter();
    let started = Instant::now();
    let names: Vec<&str> = due.iter().map(|weight| weight.name.as_str()).collect();
    let mut states = gather(&module, &names);
    let mut changes = BTreeMap::new();
    let (mut changed, mut searched) = (0, 0);
    for weight in due {
        let found = states
            .remove(&weight.name)
            .filter(|state| !state.keep.is_empty())
            .ok_or_else(|| TrainError::Unmasked { name: weight.name.clone() })
            .and_then(|state| {
                let change = search(weight, &state, plan.seed, step)
                    .map_err(|source| fault(weight, step, source))?;
                Ok((state, change))
            });
        match found {
            Ok((state, change)) => {
                changed += state.keep.iter().zip(&change.keep).filter(|(a, b)| a != b).count();
                searched += state.keep.len();
                changes.insert(weight.name.clone(), change);
            }
            Err(error) => {
                journal.fault = Some(error);
                return module;
            }
        }
    }
    let module = apply(module, &changes);
    journal.updates += 1;
    journal.changed += changed;
    journal.searched += searched;
    journal.seconds += started.elapsed().as_secs_f64();
    tracing::debug!(changed, searched, "masks updated");
    module
}

fn fault(weight: &PlannedWeight, step: usize, source: PatternError) -> TrainError {
    TrainError::Pattern { name: weight.name.clone(), step, source }
}

fn search(
    weight: &PlannedWeight,
    state: &State,
    seed: u64,
    step: usize,
) -> Result<Change, PatternError> {
    let (rows, cols) = (weight.view.rows(), weight.view.cols());
    let mut scores = match weight.score {
        Score::Magnitude => state.base.iter().map(|value| value.abs()).collect::<Vec<f32>>(),
    };
    if weight.regrow == Regrow::Never {
        for (score, &keep) in scores.iter_mut().zip(&state.keep) {
            // A product would keep NaN, and a dropped weight may be anything. What is kept ranks above
            // what is dropped even where it is zero, as the weights of an input that never fires.
            *score = match *score {
                _ if keep == 0 => 0.0,
                0.0 => f32::MIN_POSITIVE,
                kept => kept,
            };
        }
    }
    let scores = weight.view.to_matrix(&scores);
    let scores = Scores::new(rows, cols, &scores)?;
    let order = RowOrder::new(state.row_order.clone())?;
    let mut search = Search { seed, ..Search::default() };
    // The search is cold until something has been dropped: only then is there an order to start from.
    if state.keep.contains(&0) {
        search.start = match (weight.regroup, weight.regrow) {
            // A row that moved to a group with other columns would get dropped weights back.
            (_, Regrow::Never) | (Regroup::FirstUpdate, _) => Start::Fixed(&order),
            (Regroup::EveryUpdate, _) => Start::Warm(&order),
        };
    }
    let sparsity = weight.schedule.sparsity(step);
    // Before anything is dropped every order is as good as any other: search none.
    let pattern = match weight.pattern {
        Pattern::ShflBw { vector, equal_groups } if sparsity == 0.0 => {
            Pattern::VectorWise { vector, equal_groups }
        }
        pattern => pattern,
    };
    let found = pattern.project(&scores, sparsity, &search)?;
    let row_order = found.row_order.map_or(state.row_order.clone(), |o| o.as_slice().to_vec());
    let zero_dropped = step == weight.schedule.end || weight.regrow == Regrow::Never;
    Ok(Change { keep: weight.view.to_stored(&found.mask.to_bytes()), row_order, zero_dropped })
}
