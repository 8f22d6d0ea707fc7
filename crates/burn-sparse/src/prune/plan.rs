use std::collections::BTreeMap;

use burn::module::{Module, ParamId};
use burn_sparse_pattern::{Distribution, Pattern};
use serde::{Deserialize, Serialize};

use super::distribute::distribute;
use super::partitions::take_turns;
use super::selection::{Verdict, select, view};
use super::timing::schedule;
use super::{Horizon, OptimizerState, PlanError, PlannedWeight, Pruning, Unpruned};
use crate::params::parameters;

/// Every parameter of a model: pruned or not, and why; the pattern, the sparsity, and the update steps of every mask.
///
/// Print it before training. [`Plan::attach`] applies it.
///
/// ```
/// use burn::nn::LinearConfig;
/// use burn::tensor::Device;
/// use burn_sparse::pattern::Pattern;
/// use burn_sparse::prune::{Horizon, Plan, PruneConfig};
///
/// let model = LinearConfig::new(64, 32).init(&Device::flex());
/// let pruning = PruneConfig::new(Pattern::balanced(32), 0.75);
/// let plan = Plan::new(&pruning, &model, Horizon::steps(100))?;
/// assert_eq!(plan.sparsity(), 0.75);
/// # Ok::<(), burn_sparse::prune::PlanError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// Seed of the mask search.
    pub seed: u64,
    /// Optimizer steps of an epoch, if epochs are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps_per_epoch: Option<usize>,
    /// Optimizer steps of pruning: the ramp and the steps after it.
    pub prune_steps: usize,
    /// Treatment of the optimizer's state for weights that stop or start learning.
    #[serde(default)]
    pub optimizer_state: OptimizerState,
    /// Parameters that are pruned.
    pub weights: Vec<PlannedWeight>,
    /// Parameters that are not pruned.
    pub unpruned: Vec<Unpruned>,
}

impl Plan {
    /// Applies pruning rules to a model. `pruning` is a [`Pruning`] or a single
    /// [`PruneConfig`](super::PruneConfig), by value or by reference.
    ///
    /// # Errors
    /// Returns an error when a rule is malformed, a selector matches nothing, a pattern does not fit a shape, a ramp
    /// does not fit the horizon, a selected parameter is already masked or packed, or a rule selects a shared parameter by another
    /// name than its first.
    pub fn new<M: Module>(
        pruning: impl Into<Pruning>,
        model: &M,
        horizon: Horizon,
    ) -> Result<Self, PlanError> {
        let pruning = pruning.into();
        pruning.validate()?;
        let parameters = parameters(model);
        let verdicts = select(pruning.configs(), &parameters)?;
        let (mut weights, mut unpruned) = (Vec::new(), Vec::new());
        // Name and rule of the first parameter with an id; no rule if one cannot apply to it.
        let mut seen: BTreeMap<ParamId, (String, Option<Option<usize>>)> = BTreeMap::new();
        for (parameter, verdict) in parameters.into_iter().zip(verdicts) {
            let (name, shape) = (parameter.name.clone(), parameter.shape.clone());
            let rule = match &verdict {
                Verdict::Pruned { table, .. } => Some(Some(*table)),
                Verdict::Unselected => Some(None),
                Verdict::Unpruned(_) => None,
            };
            if let Some((first, of_first)) = seen.get(&parameter.id) {
                if matches!(rule, Some(Some(_))) && of_first.is_some() && rule != *of_first {
                    return Err(PlanError::Shared { name, first: first.clone() });
                }
                // Burn's optimizers step only the first of them, and only that one gets a mask.
                let reason = format!("the same parameter as {first}");
                let view = view(&parameter);
                unpruned.push(Unpruned { name, shape, view, reason });
                continue;
            }
            seen.insert(parameter.id, (name.clone(), rule));
            match (verdict, view(&parameter), parameter.reparameterization) {
                (Verdict::Unselected, view, _) => {
                    let reason = "no table selects it".into();
                    unpruned.push(Unpruned { name, shape, view, reason });
                }
                (Verdict::Unpruned(reason), view, _) => {
                    unpruned.push(Unpruned { name, shape, view, reason });
                }
                (Verdict::Pruned { .. }, _, Some(found)) => {
                    return Err(PlanError::Reparameterized { name, found });
                }
                (Verdict::Pruned { table, shadowed }, Some(view), None) => {
                    let config = &pruning.configs()[table];
                    weights.push(PlannedWeight {
                        name,
                        view,
                        table,
                        shadowed,
                        pattern: config.pattern(),
                        zeros: 0,
                        distribution: config.distribution(),
                        cap: config.cap(),
                        kept: false,
                        schedule: schedule(config, table, &horizon)?,
                        score: config.score(),
                        regrow: config.regrow(),
                        decay: config.decay(),
                        attract: config.attract(),
                        regroup: config.regroup(),
                    });
                }
                // `select` only selects parameters that have a view.
                (Verdict::Pruned { .. }, None, None) => {}
            }
        }
        distribute(&mut weights, &mut unpruned)?;
        take_turns(&mut weights)?;
        Ok(Self::of(&pruning, horizon, weights, unpruned))
    }

    /// Returns the plan with all masks fixed: training never updates them. The masks themselves come from a record that is loaded
    /// into the model after [`Self::attach`], or from a calibration.
    #[must_use]
    pub fn with_fixed_masks(mut self) -> Self {
        for weight in &mut self.weights {
            weight.kept = true;
        }
        self
    }

    pub(super) fn of(
        pruning: &Pruning,
        horizon: Horizon,
        weights: Vec<PlannedWeight>,
        unpruned: Vec<Unpruned>,
    ) -> Self {
        Self {
            seed: pruning.seed(),
            steps_per_epoch: horizon.steps_per_epoch(),
            prune_steps: horizon.total(),
            optimizer_state: pruning.optimizer_state(),
            weights,
            unpruned,
        }
    }

    /// Keeps all weights of the plan: a calibration then only [rounds them](crate::calibrate::CalibrateConfig::with_values).
    #[must_use]
    pub fn keeping_all(mut self) -> Self {
        for weight in &mut self.weights {
            (weight.pattern, weight.zeros) = (Pattern::Unstructured {}, 0);
            (weight.schedule.target, weight.distribution) = (0.0, Distribution::Uniform);
        }
        self
    }

    /// Returns the share of zeros that all planned weights will have together.
    pub fn sparsity(&self) -> f64 {
        let all: usize = self.weights.iter().map(|w| w.view.rows() * w.view.cols()).sum();
        let zeros: usize = self.weights.iter().map(|w| w.zeros).sum();
        if all == 0 { 0.0 } else { zeros as f64 / all as f64 }
    }

    /// Returns the step at which the last mask becomes final.
    pub fn end(&self) -> usize {
        self.weights.iter().map(|w| w.schedule.end).max().unwrap_or(0)
    }

    /// Checks that every schedule can be evaluated; schedules read from a file may hold anything.
    pub(crate) fn validate(&self) -> Result<(), String> {
        match self.weights.iter().find(|weight| !weight.schedule.is_valid()) {
            Some(weight) => Err(format!("{}: {:?}", weight.name, weight.schedule)),
            None => Ok(()),
        }
    }

    /// Returns the weights whose masks are updated after `step` optimizer steps.
    pub(crate) fn due(&self, step: usize) -> impl Iterator<Item = &PlannedWeight> {
        let due = move |weight: &&PlannedWeight| !weight.kept && weight.schedule.is_update(step);
        self.weights.iter().filter(due)
    }
}
