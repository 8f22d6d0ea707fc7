use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use burn::module::Module;
use burn_sparse_pattern::{Distribution, Histogram, Pattern};

use super::TrainError;
use super::grow::random_scores;
use super::journal::Journal;
use super::optimizer_state::surviving_state;
use super::score::{ScoreInput, Scorer};
use super::search::MaskSearch;
use super::state::{Change, WeightState, apply, gather};
use crate::prune::{GrowthScore, Plan, PlannedWeight, Regrow};

/// Inputs of a mask update besides the weights.
pub(super) struct Evidence<'a> {
    /// Ranks all weights instead of the configured score.
    pub(super) scorer: Option<&'a Arc<dyn Scorer>>,
    /// Gradients of the last batch, by path, for the weights whose update needs them.
    pub(super) gradients: &'a BTreeMap<String, Vec<f32>>,
}

impl<'a> Evidence<'a> {
    pub(super) fn scorer(&self, weight: &'a PlannedWeight) -> &dyn Scorer {
        self.scorer.map_or(&weight.score as &dyn Scorer, |scorer| scorer.as_ref())
    }
}

/// Makes the mask updates that are due after `step` optimizer steps.
///
/// Returns the module, and by path the weights whose optimizer state survives, for parameters where not all of it does. After
/// an error, masks stay as they are, and the journal keeps the error for `finish`.
pub(super) fn update<M: Module>(
    module: M,
    plan: &Plan,
    step: usize,
    evidence: &Evidence<'_>,
    journal: &mut Journal,
) -> (M, BTreeMap<String, Vec<u8>>) {
    let due: Vec<&PlannedWeight> = plan.due(step).collect();
    if due.is_empty() || journal.fault.is_some() {
        return (module, BTreeMap::new());
    }
    let span = tracing::info_span!("mask_update", step, weights = due.len());
    let _entered = span.enter();
    let started = Instant::now();
    let names: Vec<&str> = due.iter().map(|weight| weight.name.as_str()).collect();
    let states = gather(&module, &names);
    let replicated = states.values().any(|state| state.replicated);
    let found = Update { plan, step, evidence, states: &states }.changes(&due);
    let agreed = found.and_then(|changes| {
        if replicated {
            journal.replicas.agree(step, &due, &changes)?;
        }
        Ok(changes)
    });
    let changes = match agreed {
        Ok(changes) => changes,
        Err(fault) => {
            tracing::error!(%fault, "masks are frozen from here on");
            journal.fault = Some(fault);
            return (module, BTreeMap::new());
        }
    };
    let mut surviving = BTreeMap::new();
    for weight in &due {
        let (Some(change), Some(state)) = (changes.get(&weight.name), states.get(&weight.name))
        else {
            continue;
        };
        let masks = (state.keep.as_slice(), change.keep.as_slice());
        journal.stats.changed += masks.0.iter().zip(masks.1).filter(|(a, b)| a != b).count();
        journal.stats.searched += masks.0.len();
        let last = step == weight.schedule.end;
        if let Some(survivors) = surviving_state(plan.optimizer_state, weight, masks, last) {
            surviving.insert(weight.name.clone(), survivors);
        }
    }
    journal.stats.updates += 1;
    journal.stats.seconds += started.elapsed().as_secs_f64();
    tracing::debug!(changed = journal.stats.changed, "masks updated");
    (apply(module, &changes), surviving)
}

/// A mask update.
struct Update<'a> {
    plan: &'a Plan,
    step: usize,
    evidence: &'a Evidence<'a>,
    states: &'a BTreeMap<String, WeightState>,
}

impl<'a> Update<'a> {
    fn state(&self, weight: &PlannedWeight) -> Result<&'a WeightState, TrainError> {
        let state = self.states.get(&weight.name).filter(|state| !state.keep.is_empty());
        state.ok_or_else(|| TrainError::Unmasked { name: weight.name.clone() })
    }

    /// Finds the new mask of every weight that is due.
    fn changes(&self, due: &[&PlannedWeight]) -> Result<BTreeMap<String, Change>, TrainError> {
        let global = self.global_sparsities(due)?;
        let mut changes = BTreeMap::new();
        for &weight in due {
            let sparsity = match global.get(&weight.name) {
                Some(sparsity) => *sparsity,
                None => weight.schedule.sparsity(self.step),
            };
            changes.insert(weight.name.clone(), self.change(weight, sparsity)?);
        }
        Ok(changes)
    }

    fn change(&self, weight: &PlannedWeight, sparsity: f64) -> Result<Change, TrainError> {
        let state = self.state(weight)?;
        if sparsity == 0.0 {
            // Nothing is dropped, so nothing needs to be ranked, and any row order will do.
            let (keep, row_order) = (vec![1; state.keep.len()], state.row_order.clone());
            return Ok(Change { keep, row_order, surviving: None });
        }
        let scores = self.scores(weight)?;
        let growth = self.growth(weight, state)?;
        let search = MaskSearch { weight, state, seed: self.plan.seed, step: self.step };
        search.project(&scores, growth.as_deref(), sparsity).map_err(|source| TrainError::Pattern {
            name: weight.name.clone(),
            step: self.step,
            source,
        })
    }

    /// Returns the sparsity of every weight whose rule applies one threshold to all of its weights.
    fn global_sparsities(
        &self,
        due: &[&PlannedWeight],
    ) -> Result<BTreeMap<String, f64>, TrainError> {
        let step = self.step;
        let mut tables: BTreeMap<usize, Vec<&PlannedWeight>> = BTreeMap::new();
        for weight in due.iter().filter(|weight| weight.distribution == Distribution::Global) {
            tables.entry(weight.table).or_default().push(weight);
        }
        let mut sparsities = BTreeMap::new();
        for weights in tables.into_values() {
            let target = weights[0].schedule.sparsity(step);
            if target == 0.0 {
                sparsities.extend(weights.iter().map(|weight| (weight.name.clone(), 0.0)));
                continue;
            }
            let histogram = |weight: &&PlannedWeight| Ok(Histogram::of(&self.scores(weight)?));
            let histograms: Vec<Histogram> =
                weights.iter().map(histogram).collect::<Result<_, TrainError>>()?;
            let spread = Distribution::by_score(&histograms, target, weights[0].cap);
            for (weight, wish) in weights.into_iter().zip(spread) {
                let (name, view) = (weight.name.clone(), &weight.view);
                let wish = match weight.pattern {
                    // The final mask must obey the pattern, which a mask that keeps everything does not.
                    Pattern::Hinm { keep, of, .. } if step == weight.schedule.end => {
                        wish.max(1.0 - keep as f64 / of as f64)
                    }
                    // Rounding may have dropped more than this share already, and nothing comes back.
                    _ if weight.regrow == Regrow::Never => wish.max(self.dropped(weight)?),
                    _ => wish,
                };
                let nearest = weight.pattern.nearest_sparsity(view.rows(), view.cols(), wish);
                let fail = |source| TrainError::Pattern { name: name.clone(), step, source };
                sparsities.insert(name.clone(), nearest.map_err(fail)?);
            }
        }
        Ok(sparsities)
    }

    /// Returns the share of a weight that its mask drops.
    fn dropped(&self, weight: &PlannedWeight) -> Result<f64, TrainError> {
        let keep = &self.state(weight)?.keep;
        let dropped = keep.iter().filter(|&&kept| kept == 0).count();
        Ok(dropped as f64 / keep.len().max(1) as f64)
    }

    /// Scores a weight, in the order its layer stores it.
    fn scores(&self, weight: &PlannedWeight) -> Result<Vec<f32>, TrainError> {
        let state = self.state(weight)?;
        let scorer = self.evidence.scorer(weight);
        let gradient = self.evidence.gradients.get(&weight.name).map(Vec::as_slice);
        if scorer.needs_gradient() && gradient.is_none() {
            return Err(TrainError::NoGradient { name: weight.name.clone() });
        }
        let input = ScoreInput { name: &weight.name, values: &state.base, gradient };
        let mut scores = scorer.score(&input);
        if scores.len() != state.base.len() {
            let (name, expected, found) = (weight.name.clone(), state.base.len(), scores.len());
            return Err(TrainError::Scores { name, expected, found });
        }
        if weight.regrow.is_hard() {
            for (score, &keep) in scores.iter_mut().zip(&state.keep) {
                // Not a product, which would keep NaN. A kept weight ranks above all dropped ones even if it is zero, such as
                // the weights of an input that never fires or those that have just grown.
                *score = match *score {
                    _ if keep == 0 => 0.0,
                    0.0 => f32::MIN_POSITIVE,
                    kept => kept,
                };
            }
        }
        Ok(scores)
    }

    /// Scores the weights that may grow, in the order the layer stores them; `None` if none may, or nothing has been
    /// dropped yet.
    fn growth(
        &self,
        weight: &PlannedWeight,
        state: &WeightState,
    ) -> Result<Option<Vec<f32>>, TrainError> {
        let Regrow::Grow(growth) = weight.regrow else { return Ok(None) };
        if !state.keep.contains(&0) {
            return Ok(None);
        }
        match (growth.score, self.evidence.gradients.get(&weight.name)) {
            (GrowthScore::Random, _) => {
                let (seed, count) = (self.plan.seed, state.base.len());
                Ok(Some(random_scores(count, seed, self.step, &weight.name)))
            }
            (GrowthScore::Gradient, Some(gradient)) => {
                Ok(Some(gradient.iter().map(|slope| slope.abs()).collect()))
            }
            (GrowthScore::Gradient, None) => {
                Err(TrainError::NoGradient { name: weight.name.clone() })
            }
        }
    }
}
