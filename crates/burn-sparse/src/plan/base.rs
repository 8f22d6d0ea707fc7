use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use burn_sparse_pattern::format::View;
use burn_sparse_pattern::{Distribution, Pattern};
use serde::{Deserialize, Serialize};

use super::distribute::distribute;
use super::selection::{Verdict, select, view};
use super::turns::take_turns;
use super::{PlanError, Schedule};
use crate::modules::parameters;
use crate::recipe::{OptimizerState, PruneTable, Recipe, Regroup, Regrow, Score};
use crate::train::{Sparse, TrainError};

/// Every parameter of a model, chosen or not and why; what each mask will be and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The recipe's task.
    pub task: String,
    /// Seeds the mask search.
    pub seed: u64,
    /// Optimizer steps of an epoch.
    pub steps_per_epoch: usize,
    /// Optimizer steps of pruning, the ramp and what follows it.
    pub prune_steps: usize,
    /// What happens to the optimizer's state of weights that stop or start learning.
    #[serde(default)]
    pub optimizer_state: OptimizerState,
    /// The parameters that are pruned.
    pub weights: Vec<PlannedWeight>,
    /// The parameters that are not.
    pub unpruned: Vec<Unpruned>,
}

/// A parameter that is pruned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedWeight {
    /// Its path in the module.
    pub name: String,
    /// How its stored weight is seen as a matrix.
    pub view: View,
    /// The index of the `[[prune]]` table that applies.
    pub table: usize,
    /// Tables that also match and are overridden by it.
    pub shadowed: Vec<usize>,
    /// The allowed shapes of its mask.
    pub pattern: Pattern,
    /// The zeros its final mask has; for patterns whose units differ in size, nearly.
    pub zeros: usize,
    /// How its table spreads sparsity; `global` decides in training, `zeros` and the schedule's target
    /// are then those of an even spread.
    #[serde(default)]
    pub distribution: Distribution,
    /// The highest sparsity that a global threshold gives it.
    #[serde(default)]
    pub cap: f64,
    /// Whether its mask is that of the checkpoint it comes from, and is never updated.
    #[serde(default)]
    pub kept: bool,
    /// When its mask is updated.
    pub schedule: Schedule,
    /// What ranks its weights.
    pub score: Score,
    /// Whether dropped weights may come back during the ramp.
    pub regrow: Regrow,
    /// How strongly weights that are dropped but go on learning are drawn to zero.
    #[serde(default)]
    pub decay: f64,
    /// How strongly the rows of a group are drawn to common columns.
    #[serde(default)]
    pub attract: f64,
    /// When its row order is searched again.
    pub regroup: Regroup,
}

/// A parameter that is not pruned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Unpruned {
    /// Its path in the module.
    pub name: String,
    /// Its stored shape.
    pub shape: Vec<usize>,
    /// Why not.
    pub reason: String,
}

impl Plan {
    /// Applies a recipe to a model.
    ///
    /// # Errors
    /// When a selector matches nothing, a pattern does not fit a shape, or a ramp does not fit
    /// training.
    pub fn new<M: Module>(
        recipe: &Recipe,
        model: &M,
        steps_per_epoch: usize,
    ) -> Result<Self, PlanError> {
        if recipe.train.keep_zeros {
            return Err(PlanError::NothingToKeep);
        }
        let prune_steps = recipe.train.prune_epochs * steps_per_epoch;
        let parameters = parameters(model);
        let verdicts = select(recipe, &parameters)?;
        let (mut weights, mut unpruned) = (Vec::new(), Vec::new());
        let mut seen: BTreeMap<ParamId, String> = BTreeMap::new();
        for (parameter, verdict) in parameters.into_iter().zip(verdicts) {
            let (name, shape) = (parameter.name.clone(), parameter.shape.clone());
            if let Some(first) = seen.get(&parameter.id) {
                // Burn's optimizers step the first of them alone, and so do masks.
                let reason = format!("the same parameter as {first}");
                unpruned.push(Unpruned { name, shape, reason });
                continue;
            }
            seen.insert(parameter.id, name.clone());
            match (verdict, view(&parameter), parameter.reparameterization) {
                (Verdict::Unpruned(reason), ..) => unpruned.push(Unpruned { name, shape, reason }),
                (Verdict::Pruned { .. }, _, Some(found)) => {
                    return Err(PlanError::Reparameterized { name, found });
                }
                (Verdict::Pruned { table, shadowed }, Some(view), None) => {
                    let rule = &recipe.prune[table];
                    let schedule = schedule(rule, table, steps_per_epoch, prune_steps)?;
                    weights.push(PlannedWeight {
                        name,
                        view,
                        table,
                        shadowed,
                        pattern: rule.pattern,
                        zeros: 0,
                        distribution: rule.distribution,
                        cap: rule.cap,
                        kept: false,
                        schedule,
                        score: rule.score,
                        regrow: rule.regrow,
                        decay: rule.decay,
                        attract: rule.attract,
                        regroup: rule.regroup,
                    });
                }
                // `select` only chooses parameters that have a view.
                (Verdict::Pruned { .. }, None, None) => {}
            }
        }
        distribute(&mut weights, &mut unpruned)?;
        take_turns(&mut weights)?;
        Ok(Self {
            task: recipe.task.clone(),
            seed: recipe.seed,
            steps_per_epoch,
            prune_steps,
            optimizer_state: recipe.after.optimizer_state,
            weights,
            unpruned,
        })
    }

    /// Hangs a mask that keeps everything on every planned weight, and makes the update that is due
    /// before the first step, if one is.
    ///
    /// # Errors
    /// When weights cannot be ranked (NaN, infinity).
    pub fn attach<M: Module>(&self, model: M) -> Result<Sparse<M>, TrainError> {
        Sparse::new(model, self.clone())
    }

    /// The share of zeros that the planned weights will have together.
    pub fn sparsity(&self) -> f64 {
        let all: usize = self.weights.iter().map(|w| w.view.rows() * w.view.cols()).sum();
        let zeros: usize = self.weights.iter().map(|w| w.zeros).sum();
        if all == 0 { 0.0 } else { zeros as f64 / all as f64 }
    }

    /// The weights whose masks are updated once `step` optimizer steps are done.
    pub(crate) fn due(&self, step: usize) -> impl Iterator<Item = &PlannedWeight> {
        let due = move |weight: &&PlannedWeight| !weight.kept && weight.schedule.is_update(step);
        self.weights.iter().filter(due)
    }

    /// The step at which the last mask is final.
    pub fn end(&self) -> usize {
        self.weights.iter().map(|w| w.schedule.end).max().unwrap_or(0)
    }
}

fn schedule(
    rule: &PruneTable,
    table: usize,
    steps_per_epoch: usize,
    prune_steps: usize,
) -> Result<Schedule, PlanError> {
    let [start, end, every] =
        [rule.start, rule.end, rule.every].map(|moment| moment.in_steps(steps_per_epoch));
    let fail = |key, reason| Err(PlanError::Ramp { table, key, reason });
    if end < start {
        let reason = format!(
            "the ramp ends at \"{}\" (step {end}), before its start at \"{}\" (step {start})",
            rule.end, rule.start
        );
        return fail("end", reason);
    }
    if end > prune_steps {
        let reason = format!(
            "the ramp ends at \"{}\" (step {end}), but pruning has only {prune_steps} steps; raise \
             train.prune_epochs or end earlier",
            rule.end
        );
        return fail("end", reason);
    }
    if matches!(rule.pattern, Pattern::Hinm { .. }) && rule.regrow.is_hard() && start < end {
        // A column that leaves a group shifts the runs after it, and their rows need other weights.
        let reason = "hinm needs \"straight-through\" along a ramp: runs shift as columns leave; use \
                      \"straight-through\", or one update (end = start)";
        return fail("regrow", reason.into());
    }
    let gradient = rule.score == Score::Taylor;
    if gradient && start == 0 && end == 0 {
        let reason = "taylor scores need a gradient, which is not there before the first step: end \
                      after \"1 steps\" or later";
        return fail("end", reason.into());
    }
    let turns = match rule.regrow {
        Regrow::GrowAndPrune(turns) => Some(turns.turns()),
        _ => None,
    };
    let at_once = turns.is_some() || rule.curve.sparsity(0.0, rule.target()) > 0.0;
    if gradient && start == 0 && at_once {
        let reason = "taylor scores need a gradient, which is not there before the first step, and \
                      weights are dropped at once: start after \"1 steps\" or later";
        return fail("start", reason.into());
    }
    if every == 0 {
        return fail("every", format!("\"{}\" is less than a step", rule.every));
    }
    let every = match turns {
        Some(turns) if (end - start) / turns == 0 => {
            let steps = end - start;
            return fail("regrow", format!("has {turns} turns in {steps} steps"));
        }
        Some(turns) => (end - start) / turns,
        None => every,
    };
    let (curve, target) = (rule.curve.clone(), rule.target());
    Ok(Schedule { start, end, every, curve, target, turn: None })
}

/// The weights of every `[[prune]]` table, as indices in the model's order.
pub(super) fn tables(weights: &[PlannedWeight]) -> BTreeMap<usize, Vec<usize>> {
    let mut tables: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, weight) in weights.iter().enumerate() {
        tables.entry(weight.table).or_default().push(index);
    }
    tables
}
