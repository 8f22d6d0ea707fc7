use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use burn::module::Module;
use burn_sparse_pattern::{Distribution, Histogram, Pattern};

use super::gather::{Change, State, apply, gather};
use super::grow::chance;
use super::optimizer_state::staying;
use super::score::{Ranked, Scorer};
use super::search::Search;
use super::{Journal, TrainError};
use crate::plan::{Plan, PlannedWeight};
use crate::recipe::{GrowthScore, Regrow};

/// What a mask update looks at besides the weights.
pub(crate) struct Evidence<'a> {
    /// Ranks all weights instead of the recipe's score.
    pub(crate) scorer: Option<&'a Arc<dyn Scorer>>,
    /// Gradients of the last batch, by path, where a scorer needs them.
    pub(crate) gradients: &'a BTreeMap<String, Vec<f32>>,
}

impl<'a> Evidence<'a> {
    pub(crate) fn scorer(&self, weight: &'a PlannedWeight) -> &dyn Scorer {
        self.scorer.map_or(&weight.score as &dyn Scorer, |scorer| scorer.as_ref())
    }
}

/// Makes the mask updates that are due once `step` optimizer steps are done.
///
/// After an error masks stay as they are, and the journal keeps the error for `finish`. With the module comes
/// what stays of the optimizer's state, by path, where not all does.
pub(crate) fn update<M: Module>(
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
    let found = changes(plan, &due, &states, step, evidence).and_then(|changes| {
        if replicated {
            journal.replicas.agree(step, &due, &changes)?;
        }
        Ok(changes)
    });
    match found {
        Ok(mut changes) => {
            for (name, change) in &changes {
                let before = &states[name].keep;
                journal.changed += before.iter().zip(&change.keep).filter(|(a, b)| a != b).count();
                journal.searched += before.len();
            }
            journal.updates += 1;
            journal.seconds += started.elapsed().as_secs_f64();
            tracing::debug!(changed = journal.changed, "masks updated");
            let module = apply(module, &changes);
            let staying = changes
                .iter_mut()
                .filter_map(|(name, change)| Some((name.clone(), change.state_stays.take()?)));
            (module, staying.collect())
        }
        Err(fault) => {
            tracing::error!(%fault, "masks stay as they are from here on");
            journal.fault = Some(fault);
            (module, BTreeMap::new())
        }
    }
}

fn changes(
    plan: &Plan,
    due: &[&PlannedWeight],
    states: &BTreeMap<String, State>,
    step: usize,
    evidence: &Evidence<'_>,
) -> Result<BTreeMap<String, Change>, TrainError> {
    let state = |weight: &PlannedWeight| {
        let state = states.get(&weight.name).filter(|state| !state.keep.is_empty());
        state.ok_or_else(|| TrainError::Unmasked { name: weight.name.clone() })
    };
    let global = global_sparsities(due, step, |weight| scores(weight, state(weight)?, evidence))?;
    let mut changes = BTreeMap::new();
    for &weight in due {
        let state = state(weight)?;
        let sparsity = match global.get(&weight.name) {
            Some(sparsity) => *sparsity,
            None => weight.schedule.sparsity(step),
        };
        let mut change = if sparsity == 0.0 {
            // Before anything is dropped nothing needs to be ranked, and every order is as good.
            let keep = vec![1; state.keep.len()];
            let row_order = state.row_order.clone();
            Change { keep, row_order, stays: None, state_stays: None }
        } else {
            let scores = scores(weight, state, evidence)?;
            let growth = growth(weight, state, evidence, plan.seed, step)?;
            let search = Search { weight, state, seed: plan.seed, step };
            let found = search.project(&scores, growth.as_deref(), sparsity);
            found.map_err(|source| TrainError::Pattern {
                name: weight.name.clone(),
                step,
                source,
            })?
        };
        let masks = (state.keep.as_slice(), change.keep.as_slice());
        let last = step == weight.schedule.end;
        change.state_stays = staying(plan.optimizer_state, weight, masks, last);
        changes.insert(weight.name.clone(), change);
    }
    Ok(changes)
}

/// The sparsity of every weight whose table spreads one threshold over all of its weights.
fn global_sparsities<'a>(
    due: &[&'a PlannedWeight],
    step: usize,
    scores: impl Fn(&'a PlannedWeight) -> Result<Vec<f32>, TrainError>,
) -> Result<BTreeMap<String, f64>, TrainError> {
    let mut tables: BTreeMap<usize, Vec<&PlannedWeight>> = BTreeMap::new();
    for weight in due.iter().filter(|weight| weight.distribution == Distribution::Global) {
        tables.entry(weight.table).or_default().push(weight);
    }
    let mut sparsities = BTreeMap::new();
    for weights in tables.into_values() {
        let target = weights[0].schedule.sparsity(step);
        if target == 0.0 {
            // Before anything is dropped nothing needs to be ranked.
            sparsities.extend(weights.iter().map(|weight| (weight.name.clone(), 0.0)));
            continue;
        }
        let histogram = |weight: &&'a PlannedWeight| Ok(Histogram::of(&scores(weight)?));
        let histograms: Vec<Histogram> = weights.iter().map(histogram).collect::<Result<_, _>>()?;
        let spread = Distribution::by_score(&histograms, target, weights[0].cap);
        for (weight, wish) in weights.into_iter().zip(spread) {
            let (name, view) = (weight.name.clone(), &weight.view);
            let wish = match weight.pattern {
                // Its last mask must be one of the pattern, which no mask that keeps all is.
                Pattern::Hinm { keep, of, .. } if step == weight.schedule.end => {
                    wish.max(1.0 - keep as f64 / of as f64)
                }
                _ => wish,
            };
            let nearest = weight.pattern.nearest_sparsity(view.rows(), view.cols(), wish);
            let fail = |source| TrainError::Pattern { name: name.clone(), step, source };
            sparsities.insert(name.clone(), nearest.map_err(fail)?);
        }
    }
    Ok(sparsities)
}

/// What ranks a weight, in the order its layer stores it.
fn scores(
    weight: &PlannedWeight,
    state: &State,
    evidence: &Evidence<'_>,
) -> Result<Vec<f32>, TrainError> {
    let scorer = evidence.scorer(weight);
    let gradient = evidence.gradients.get(&weight.name).map(Vec::as_slice);
    if scorer.needs_gradient() && gradient.is_none() {
        return Err(TrainError::NoGradient { name: weight.name.clone() });
    }
    let ranked = Ranked { name: &weight.name, values: &state.base, gradient };
    let mut scores = scorer.score(&ranked);
    if scores.len() != state.base.len() {
        let (name, expected, found) = (weight.name.clone(), state.base.len(), scores.len());
        return Err(TrainError::Scores { name, expected, found });
    }
    if weight.regrow.is_hard() {
        for (score, &keep) in scores.iter_mut().zip(&state.keep) {
            // A product would keep NaN, and a dropped weight may be anything. What is kept ranks above
            // what is dropped even where it is zero, as the weights of an input that never fires, or
            // what has just grown.
            *score = match *score {
                _ if keep == 0 => 0.0,
                0.0 => f32::MIN_POSITIVE,
                kept => kept,
            };
        }
    }
    Ok(scores)
}

/// What ranks the weights that may grow, in the order the layer stores them; nothing where none may, or
/// nothing has been dropped yet.
fn growth(
    weight: &PlannedWeight,
    state: &State,
    evidence: &Evidence<'_>,
    seed: u64,
    step: usize,
) -> Result<Option<Vec<f32>>, TrainError> {
    let Regrow::Grow(growth) = weight.regrow else { return Ok(None) };
    if !state.keep.contains(&0) {
        return Ok(None);
    }
    match (growth.score, evidence.gradients.get(&weight.name)) {
        (GrowthScore::Random, _) => Ok(Some(chance(state.base.len(), seed, step, &weight.name))),
        (GrowthScore::Gradient, Some(gradient)) => {
            Ok(Some(gradient.iter().map(|slope| slope.abs()).collect()))
        }
        (GrowthScore::Gradient, None) => Err(TrainError::NoGradient { name: weight.name.clone() }),
    }
}
