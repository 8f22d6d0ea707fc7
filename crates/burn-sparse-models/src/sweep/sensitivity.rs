use std::path::Path;

use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::checkpoint::Form;
use burn_sparse::pattern::{Distribution, Pattern};
use burn_sparse::plan::Plan;
use burn_sparse::recipe::{Moment, PruneTable, Recipe, Regrow, Score};
use serde::{Deserialize, Serialize};

use super::Sweep;
use super::run::Runner;
use crate::run::{DataSource, Observer, RunError};
use crate::{Metric, Task};

/// What pruning each weight alone, at once and without training, does to a dense model (Li et al., "Pruning
/// filters for efficient ConvNets", 2017, section 3.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// The task.
    pub task: String,
    /// The metric of the dense model.
    pub dense: Metric,
    /// Whether a lower metric is the better one.
    pub lower_is_better: bool,
    /// Every weight under every pattern at every sparsity.
    pub trials: Vec<Trial>,
}

/// One weight pruned alone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The weight.
    pub name: String,
    /// The pattern, as a recipe spells it.
    pub pattern: String,
    /// The share of zeros asked for.
    pub target: f64,
    /// The share of zeros of this weight: whole counts may not hit the target.
    pub sparsity: f64,
    /// The metric with this weight pruned.
    pub value: f64,
    /// How much worse than dense that is; below zero where it is better.
    pub loss: f64,
}

/// Tries every weight that the recipe prunes, in the dense model of its first seed, which is trained first where
/// it is not there yet.
///
/// Nothing comes back where the observer ended it; `tried` hears of every trial.
///
/// # Errors
/// As [`sweep`](super::sweep).
#[allow(clippy::too_many_arguments)]
pub fn sensitivity<T: Task>(
    task: &T,
    sweep: &Sweep,
    data_dir: Option<&Path>,
    folder: &Path,
    device: &Device,
    observer: &mut dyn Observer,
    done: &mut dyn FnMut(&str, &Metric),
    tried: &mut dyn FnMut(&Trial),
) -> Result<Option<Sensitivity>, RunError> {
    let trains = device.clone().autodiff();
    // Whatever is wrong is said before anything is trained.
    let fresh = task.model(&trains);
    let grid = grid(sweep, &names(&sweep.recipe, &fresh)?);
    for trial in &grid {
        trial.plan(&sweep.recipe, &fresh)?;
    }
    let source = DataSource::new(data_dir);
    let dense = sweep.dense();
    let mut runner = Runner { task, source: &source, folder, device, observer, done };
    let Some(dense) = dense.first().map_or(Ok(None), |planned| runner.one(planned, None))? else {
        return Ok(None);
    };
    let data = source.load(task, sweep.recipe.seed)?;
    let model = dense.checkpoint.apply(fresh, Form::Dense)?;
    let lower_is_better = task.lower_is_better();
    let mut trials = Vec::new();
    for planned in grid {
        if observer.interrupted() {
            return Ok(None);
        }
        let plan = planned.plan(&sweep.recipe, &model)?;
        let pruned = plan.attach(model.clone())?.finish()?;
        let value = task.evaluate(&data, &pruned.model.valid(), device).value;
        let worse =
            if lower_is_better { value - dense.metric.value } else { dense.metric.value - value };
        let (pattern, target) = (planned.pattern.to_string(), planned.target);
        let sparsity = pruned.sparsity();
        let trial = Trial { name: planned.name, pattern, target, sparsity, value, loss: worse };
        tried(&trial);
        trials.push(trial);
    }
    let task = sweep.recipe.task.clone();
    Ok(Some(Sensitivity { task, dense: dense.metric, lower_is_better, trials }))
}

impl Sensitivity {
    /// The recipe with a table for every weight: the highest sparsity that alone loses no more than `allowed`.
    /// Weights that lose more at any are left out, so they stay dense; nothing comes back where that is all of
    /// them. The other keys are those of the recipe's first table, but for what needs several weights: one
    /// sparsity for all of them, and partitions that grow in turn.
    pub fn recipe(&self, recipe: &Recipe, allowed: f64) -> Option<Recipe> {
        let mut tables: Vec<PruneTable> = Vec::new();
        for trial in self.trials.iter().filter(|trial| trial.loss <= allowed) {
            let Ok(pattern) = trial.pattern.parse::<Pattern>() else { continue };
            let first = recipe.prune.first()?.clone();
            let params = vec![trial.name.clone()];
            let regrow = match first.regrow {
                Regrow::GrowAndPrune(_) => Regrow::Never,
                other => other,
            };
            let distribution = Distribution::Uniform;
            let table = PruneTable { params, except: Vec::new(), distribution, regrow, ..first };
            let table = table.under(pattern, trial.target);
            match tables.iter_mut().find(|old| old.params == table.params) {
                Some(old) if old.target() < table.target() => *old = table,
                Some(_) => {}
                None => tables.push(table),
            }
        }
        (!tables.is_empty()).then(|| Recipe { prune: tables, ..recipe.clone() })
    }
}

/// A trial to come.
struct Planned {
    name: String,
    pattern: Pattern,
    target: f64,
}

impl Planned {
    /// The plan that prunes this weight at once, and no other.
    fn plan<M: Module>(&self, recipe: &Recipe, model: &M) -> Result<Plan, RunError> {
        let table = |first: PruneTable| PruneTable {
            params: vec![self.name.clone()],
            except: Vec::new(),
            distribution: Distribution::Uniform,
            // There is no batch to take a gradient of.
            score: Score::Magnitude,
            start: Moment::steps(0),
            end: Moment::steps(0),
            // In steps: an epoch has only one here.
            every: Moment::steps(1),
            regrow: Regrow::Never,
            decay: 0.0,
            attract: 0.0,
            ..first
        };
        let first = recipe.prune.first().cloned();
        let table = first.map(|first| table(first).under(self.pattern, self.target));
        let recipe = Recipe { prune: table.into_iter().collect(), ..recipe.clone() };
        Ok(Plan::new(&recipe, model, 1)?)
    }
}

/// The weights that a recipe prunes.
fn names<M: Module>(recipe: &Recipe, model: &M) -> Result<Vec<String>, RunError> {
    // Their ramps are as long as their epochs; only which weights they name matters here.
    let plan = Plan::new(recipe, model, 1 << 20)?;
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
