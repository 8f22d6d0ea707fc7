use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use serde::{Deserialize, Serialize};

use super::distribute::distribute;
use super::ramp::schedule;
use super::selection::{Verdict, select, view};
use super::turns::take_turns;
use super::{PlanError, PlannedWeight, Unpruned};
use crate::modules::parameters;
use crate::recipe::{OptimizerState, Recipe};
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
