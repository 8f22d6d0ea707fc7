use burn::module::Module;
use burn_sparse::pattern::{Distribution, Pattern};
use burn_sparse::prune::{Horizon, Moment, Plan, PruneConfig, Ramp, Regrow, Score};
use serde::{Deserialize, Serialize};

use super::Sweep;
use super::run::{Runner, SweepPlace};
use crate::recipe::Recipe;
use crate::run::{DataSource, Observer, RunError};
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
    /// Trials of every weight under every pattern at every sparsity.
    pub trials: Vec<Trial>,
}

/// Result of pruning one weight alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Path of the weight.
    pub name: String,
    /// Pattern, as a recipe spells it.
    pub pattern: String,
    /// Requested share of zeros.
    pub target: f64,
    /// Share of zeros of the weight, which whole counts may round.
    pub sparsity: f64,
    /// Metric with this weight pruned.
    pub value: f64,
    /// Loss compared to the dense model; negative if the metric is better.
    pub loss: f64,
}

/// Prunes every weight that the recipe prunes alone, in the dense model of its first seed, which is trained first if
/// necessary.
///
/// Returns `None` if the observer interrupted it. Calls `watch` for every finished run and every trial.
///
/// # Errors
/// As [`sweep`](super::sweep).
pub fn sensitivity<T: Task>(
    task: &T,
    sweep: &Sweep,
    place: SweepPlace<'_>,
    observer: &mut dyn Observer,
    watch: &mut dyn FnMut(SensitivityEvent<'_>),
) -> Result<Option<Sensitivity>, RunError> {
    let trains = place.device.clone().autodiff();
    // Everything that can be wrong is reported before anything is trained.
    let fresh = task.model(&trains);
    let grid = grid(sweep, &names(&sweep.recipe, &fresh)?);
    for trial in &grid {
        trial.plan(&sweep.recipe, &fresh)?;
    }
    let source = DataSource::new(place.data_dir);
    let dense = sweep.dense();
    let mut done = |run: &str, metric: &Metric| watch(SensitivityEvent::Run(run, metric));
    let mut runner = Runner { task, source: &source, place, observer, done: &mut done };
    let Some(dense) = dense.first().map_or(Ok(None), |planned| runner.one(planned, None))? else {
        return Ok(None);
    };
    let data = source.load(task, sweep.recipe.seed)?;
    let model = dense.checkpoint.load_dense(fresh)?;
    let lower_is_better = task.lower_is_better();
    let mut trials = Vec::new();
    for planned in grid {
        if observer.interrupted() {
            return Ok(None);
        }
        let plan = planned.plan(&sweep.recipe, &model)?;
        let pruned = plan.attach(model.clone())?.finish()?;
        let value = task.evaluate(&data, &pruned.model().valid(), place.device)?.value;
        let worse =
            if lower_is_better { value - dense.metric.value } else { dense.metric.value - value };
        let (pattern, target) = (planned.pattern.to_string(), planned.target);
        let sparsity = pruned.sparsity();
        let trial = Trial { name: planned.name, pattern, target, sparsity, value, loss: worse };
        watch(SensitivityEvent::Trial(&trial));
        trials.push(trial);
    }
    let task = sweep.recipe.task.clone();
    Ok(Some(Sensitivity { task, dense: dense.metric, lower_is_better, trials }))
}

/// Progress of [`sensitivity`].
#[derive(Debug)]
pub enum SensitivityEvent<'a> {
    /// A run is finished, with this metric.
    Run(&'a str, &'a Metric),
    /// A weight has been tried.
    Trial(&'a Trial),
}

impl Sensitivity {
    /// Returns the recipe with one table per weight, at the highest sparsity that alone loses no more than `allowed`. Weights
    /// that lose more at every sparsity stay dense; returns `None` if all do. Other keys are those of the recipe's first
    /// table, except for those that need several weights: a global distribution, and grow-and-prune.
    pub fn recipe(&self, recipe: &Recipe, allowed: f64) -> Option<Recipe> {
        let mut tables: Vec<PruneConfig> = Vec::new();
        for trial in self.trials.iter().filter(|trial| trial.loss <= allowed) {
            let Ok(pattern) = trial.pattern.parse::<Pattern>() else { continue };
            let first = recipe.prune.first()?.clone();
            let regrow = match first.regrow() {
                Regrow::GrowAndPrune(_) => Regrow::Never,
                other => other,
            };
            let table = alone(first, &trial.name).with_regrow(regrow);
            let table = table.with_pattern(pattern, trial.target);
            match tables.iter_mut().find(|old| old.params() == table.params()) {
                Some(old) if old.target() < table.target() => *old = table,
                Some(_) => {}
                None => tables.push(table),
            }
        }
        (!tables.is_empty()).then(|| Recipe { prune: tables, ..recipe.clone() })
    }
}

/// Restricts a rule to one weight.
fn alone(config: PruneConfig, name: &str) -> PruneConfig {
    let none: [&str; 0] = [];
    config.with_params([name]).with_except(none).with_distribution(Distribution::Uniform)
}

/// Planned trial.
struct Planned {
    name: String,
    pattern: Pattern,
    target: f64,
}

impl Planned {
    /// Returns the plan that prunes only this weight, in one shot.
    fn plan<M: Module>(&self, recipe: &Recipe, model: &M) -> Result<Plan, RunError> {
        let one = |first: PruneConfig| {
            alone(first, &self.name)
                // There is no batch, and so no gradient.
                .with_score(Score::Magnitude)
                .with_ramp(Ramp::one_shot(Moment::Steps(0)))
                .with_regrow(Regrow::Never)
                .with_decay(0.0)
                .with_attract(0.0)
                .with_pattern(self.pattern, self.target)
        };
        let prune = recipe.prune.first().cloned().map(one).into_iter().collect();
        let recipe = Recipe { prune, ..recipe.clone() };
        Ok(Plan::new(recipe.pruning(), model, Horizon::steps(0))?)
    }
}

/// Returns the paths of the weights that a recipe prunes.
fn names<M: Module>(recipe: &Recipe, model: &M) -> Result<Vec<String>, RunError> {
    // Only the selection of weights matters, so any ramp will do.
    let one_shot =
        |config: &PruneConfig| config.clone().with_ramp(Ramp::one_shot(Moment::Steps(0)));
    let prune = recipe.prune.iter().map(one_shot).map(|config| {
        let config = config.with_score(Score::Magnitude);
        match config.regrow() {
            Regrow::GrowAndPrune(_) => config.with_regrow(Regrow::Never),
            _ => config,
        }
    });
    let recipe = Recipe { prune: prune.collect(), ..recipe.clone() };
    let plan = Plan::new(recipe.pruning(), model, Horizon::steps(0))?;
    Ok(plan.weights.iter().map(|weight| weight.name.clone()).collect())
}

fn grid(sweep: &Sweep, names: &[String]) -> Vec<Planned> {
    let mut grid = Vec::new();
    for name in names {
        for &pattern in &sweep.patterns {
            for target in sweep.targets(pattern) {
                grid.push(Planned { name: name.clone(), pattern, target });
            }
        }
    }
    grid
}
