use burn::module::Module;
use serde::{Deserialize, Serialize};

use super::Sweep;
use super::candidate::{Candidate, CandidateEvent, Candidates, one_table_each};
use super::run::SweepPlace;
use crate::recipe::Recipe;
use crate::run::{Observer, RunError};
use crate::{Metric, Task};

/// Sensitivity of a dense model to pruning each weight alone, in one shot and without training (Li et al., "Pruning filters
/// for efficient ConvNets", 2017, section 3.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Task.
    pub task: String,
    /// Metric of the dense model.
    pub dense: Metric,
    /// `true` if a lower metric is better.
    pub lower_is_better: bool,
    /// Trials of every weight under every pattern at every sparsity, weight by weight.
    pub trials: Vec<Trial>,
}

/// Result of pruning one weight alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Weight, pattern and sparsity.
    #[serde(flatten)]
    pub candidate: Candidate,
    /// Metric with this weight pruned.
    pub value: f64,
    /// Loss compared to the dense model; negative if the metric is better.
    pub loss: f64,
}

/// Prunes each weight that the recipe prunes, alone, in the dense model of its first seed, which is trained first if necessary.
///
/// Returns `None` if the observer interrupted it. Calls `watch` for every finished run and every trial.
///
/// # Errors
/// Returns the same errors as [`sweep`](super::sweep).
pub fn sensitivity<T: Task>(
    task: &T,
    sweep: &Sweep,
    place: SweepPlace<'_>,
    observer: &mut dyn Observer,
    watch: &mut dyn FnMut(CandidateEvent<'_>),
) -> Result<Option<Sensitivity>, RunError> {
    let Some(candidates) = Candidates::of(task, sweep, place, observer, watch)? else {
        return Ok(None);
    };
    let lower_is_better = task.lower_is_better();
    let dense = candidates.dense.clone();
    let mut trials = Vec::new();
    let finished = candidates.each(observer, watch, |candidate, pruned| {
        let alone = pruned.model().valid();
        let value = task.evaluate(&candidates.data, &alone, place.device)?.finite()?.value;
        let loss = if lower_is_better { value - dense.value } else { dense.value - value };
        trials.push(Trial { candidate, value, loss });
        Ok(())
    })?;
    let task = sweep.recipe.task.clone();
    Ok(finished.then_some(Sensitivity { task, dense, lower_is_better, trials }))
}

impl Sensitivity {
    /// Returns the recipe with one table per weight, at the highest sparsity at which pruning it alone loses no more than
    /// `allowed`. Weights that lose more at every sparsity stay dense; returns `None` if all do. Other keys are those of the
    /// recipe's first table, except for those that need several weights: a global distribution, and grow-and-prune.
    pub fn recipe(&self, recipe: &Recipe, allowed: f64) -> Option<Recipe> {
        let mut chosen: Vec<&Candidate> = Vec::new();
        for trial in self.trials.iter().filter(|trial| trial.loss <= allowed) {
            let candidate = &trial.candidate;
            match chosen.iter_mut().find(|old| old.name == candidate.name) {
                Some(old) if old.target < candidate.target => *old = candidate,
                Some(_) => {}
                None => chosen.push(candidate),
            }
        }
        one_table_each(recipe, chosen.into_iter())
    }
}
