use burn::module::Module;
use burn_sparse::nn::{KernelInput, record_dispatch};

use super::Sweep;
use super::candidate::{CandidateEvent, Candidates};
use super::choose::{Budget, BudgetError, Budgeted, TimedCandidate, choose};
use super::layer_times::LayerTimes;
use super::run::SweepPlace;
use crate::Task;
use crate::latency::Latency;
use crate::run::{Observer, RunError};

/// Candidates for a budget, and the choice among them.
#[derive(Debug, Clone, PartialEq)]
pub struct BudgetReport {
    /// Task.
    pub task: String,
    /// Number of samples of the batch.
    pub batch: usize,
    /// Every weight under every pattern at every sparsity, weight by weight.
    pub candidates: Vec<TimedCandidate>,
    /// Choice, or why there is none.
    pub chosen: Result<Budgeted, BudgetError>,
}

/// Chooses a sparsity for every weight that the recipe prunes, so that the model takes no longer than `budget` for a batch of
/// `batch` samples, in the dense model of the recipe's first seed, which is trained first if necessary. Weights that change
/// the model's outputs least are pruned most.
///
/// Returns `None` if the observer interrupted it. Calls `watch` for every finished run, candidate, and measured model.
///
/// # Errors
/// Returns the same errors as [`sweep`](super::sweep).
pub fn budget<T: Task>(
    task: &T,
    sweep: &Sweep,
    (budget, batch): (Budget, usize),
    place: SweepPlace<'_>,
    observer: &mut dyn Observer,
    watch: &mut dyn FnMut(CandidateEvent<'_>),
) -> Result<Option<BudgetReport>, RunError> {
    let Some(dense) = Candidates::of(task, sweep, place, observer, watch)? else {
        return Ok(None);
    };
    let batch = batch.min(task.test_len(&dense.data));
    let mut times = LayerTimes::new(place.device);
    let mut candidates = Vec::new();
    let finished = dense.each(observer, watch, |candidate, pruned| {
        let time = match (pruned.packed().values().next(), pruned.weights()) {
            (Some(packed_weight), [weight]) => {
                let packed = pruned.pack().valid();
                let (_, ran) = record_dispatch(|| dense.outputs(&packed, batch));
                let calls: Vec<KernelInput> = ran.iter().map(|ran| ran.input).collect();
                times.of(packed_weight, weight.pattern, &calls)?
            }
            _ => None,
        };
        candidates.push(TimedCandidate { candidate, time });
        Ok(())
    })?;
    if !finished {
        return Ok(None);
    }
    let chosen = choose(&candidates, budget, &mut |weights| {
        let packed = dense.packed(weights)?;
        let forms = [&dense.plain, &packed];
        let found = Latency::measure(task, &dense.data, forms, batch, place.device);
        let us = [found.dense_us, found.sparse_us];
        watch(CandidateEvent::Timed(us));
        Ok::<_, RunError>(us)
    })?;
    Ok(Some(BudgetReport { task: sweep.recipe.task.clone(), batch, candidates, chosen }))
}
