use std::rc::Rc;

use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::pattern::{Distribution, Pattern};
use burn_sparse::prune::{Horizon, Moment, Plan, PruneConfig, Ramp, Regrow, Score};
use burn_sparse::train::Pruned;
use serde::{Deserialize, Serialize};

use super::Sweep;
use super::run::{Runner, SweepPlace};
use crate::recipe::Recipe;
use crate::run::{DataSource, Observer, RunError};
use crate::{Metric, Task};

/// Number of test samples whose outputs are compared.
const COMPARED: usize = 64;

/// A weight, pruned alone in a dense model, in one shot and without training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// Path of the weight.
    pub name: String,
    /// Pattern, as a recipe spells it.
    pub pattern: String,
    /// Requested share of zeros.
    pub target: f64,
    /// Share of zeros of the weight, which may be rounded to whole counts.
    pub sparsity: f64,
    /// Mean squared difference of the model's outputs from the dense model's, relative to the mean square of the latter.
    pub error: f64,
}

/// Progress of [`sensitivity`](super::sensitivity) and [`budget`](super::budget).
#[derive(Debug)]
#[non_exhaustive]
pub enum CandidateEvent<'a> {
    /// A run is finished, with this metric.
    Run(&'a str, &'a Metric),
    /// A weight has been pruned alone.
    Candidate(&'a Candidate),
    /// A model was timed with several weights pruned: microseconds of the dense and of the packed model.
    Timed([f64; 2]),
}

/// A dense model, and the weights to prune in it, one at a time.
pub(super) struct Candidates<'a, T: Task> {
    task: &'a T,
    recipe: &'a Recipe,
    device: &'a Device,
    model: T::Model,
    grid: Vec<Planned>,
    pub(super) data: Rc<T::Data>,
    pub(super) plain: T::Model,
    pub(super) dense: Metric,
}

impl<'a, T: Task> Candidates<'a, T> {
    /// Reads the dense model of the recipe's first seed, which is trained first if necessary. Returns `None` if the observer
    /// interrupted it.
    pub(super) fn of(
        task: &'a T,
        sweep: &'a Sweep,
        place: SweepPlace<'a>,
        observer: &mut dyn Observer,
        watch: &mut dyn FnMut(CandidateEvent<'_>),
    ) -> Result<Option<Self>, RunError> {
        let trains = place.device.clone().autodiff();
        // Reports everything that can be wrong before training anything.
        let fresh = task.model(&trains);
        let grid = grid(sweep, &names(&sweep.recipe, &fresh)?);
        for planned in &grid {
            planned.plan(&sweep.recipe, &fresh)?;
        }
        let source = DataSource::new(place.data_dir);
        let dense = sweep.dense();
        let mut done = |run: &str, metric: &Metric| watch(CandidateEvent::Run(run, metric));
        let mut runner = Runner { task, source: &source, place, observer, done: &mut done };
        let Some(dense) = dense.first().map_or(Ok(None), |planned| runner.one(planned, None))?
        else {
            return Ok(None);
        };
        let data = source.load(task, sweep.recipe.seed)?;
        let model = dense.checkpoint.load_dense(fresh)?;
        let (recipe, device, plain) = (&sweep.recipe, place.device, model.valid());
        let dense = dense.metric;
        Ok(Some(Self { task, recipe, device, model, grid, data, plain, dense }))
    }

    /// Prunes every weight under every pattern to every sparsity, weight by weight. Returns `false` if the observer
    /// interrupted it.
    pub(super) fn each(
        &self,
        observer: &mut dyn Observer,
        watch: &mut dyn FnMut(CandidateEvent<'_>),
        mut one: impl FnMut(Candidate, &Pruned<T::Model>) -> Result<(), RunError>,
    ) -> Result<bool, RunError> {
        let samples = COMPARED.min(self.task.compared(&self.data));
        let expected = self.outputs(&self.plain, samples);
        for planned in &self.grid {
            if observer.interrupted() {
                return Ok(false);
            }
            let pruned = self.pruned(&planned.plan(self.recipe, &self.model)?)?;
            let candidate = Candidate {
                name: planned.name.clone(),
                pattern: planned.pattern.to_string(),
                target: planned.target,
                sparsity: pruned.sparsity(),
                error: difference(&expected, &self.outputs(&pruned.model().valid(), samples)),
            };
            watch(CandidateEvent::Candidate(&candidate));
            one(candidate, &pruned)?;
        }
        Ok(true)
    }

    /// Returns the model with these weights pruned in one shot and packed.
    pub(super) fn packed(&self, weights: &[&Candidate]) -> Result<T::Model, RunError> {
        let Some(recipe) = one_table_each(self.recipe, weights.iter().copied()) else {
            return Ok(self.plain.clone());
        };
        let prune = recipe.prune.into_iter().map(one_shot).collect();
        let recipe = Recipe { prune, ..self.recipe.clone() };
        let plan = Plan::new(recipe.pruning(), &self.model, Horizon::steps(0))?;
        Ok(self.pruned(&plan)?.pack().valid())
    }

    fn pruned(&self, plan: &Plan) -> Result<Pruned<T::Model>, RunError> {
        Ok(plan.attach(self.model.clone())?.finish()?)
    }

    /// Returns the outputs for the first `samples` test samples, flat.
    pub(super) fn outputs(&self, model: &T::Model, samples: usize) -> Vec<f32> {
        self.task.outputs(&self.data, model, samples, self.device)
    }
}

/// Returns the mean squared difference, relative to the mean square of the expected values.
fn difference(expected: &[f32], found: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value) * f64::from(value);
    let off: f64 = expected.iter().zip(found).map(|(a, b)| square(a - b)).sum();
    off / expected.iter().map(|&value| square(value)).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// Returns the recipe with one table for each candidate, at its pattern and sparsity; `None` without any. Other keys are those of
/// the recipe's first table, unless its pattern does not allow them.
pub(super) fn one_table_each<'a>(
    recipe: &Recipe,
    candidates: impl Iterator<Item = &'a Candidate>,
) -> Option<Recipe> {
    let first = recipe.prune.first()?;
    let regrow = match first.regrow() {
        Regrow::GrowAndPrune(_) => Regrow::Never,
        other => other,
    };
    let table = |candidate: &Candidate| {
        let pattern = candidate.pattern.parse::<Pattern>().ok()?;
        let table = alone(first.clone(), &candidate.name);
        let regrow = match pattern {
            // Its runs shift as columns leave.
            Pattern::Hinm { .. } => Regrow::StraightThrough,
            _ => regrow,
        };
        let attract = if pattern.vector().is_some() { first.attract() } else { 0.0 };
        let table = table.with_regrow(regrow).with_attract(attract);
        Some(table.with_pattern(pattern, candidate.target))
    };
    let tables: Vec<PruneConfig> = candidates.filter_map(table).collect();
    (!tables.is_empty()).then(|| Recipe { prune: tables, ..recipe.clone() })
}

/// Restricts a rule to one weight.
fn alone(config: PruneConfig, name: &str) -> PruneConfig {
    let none: [&str; 0] = [];
    config.with_params([name]).with_except(none).with_distribution(Distribution::Uniform)
}

/// Changes a rule to prune before the first step.
fn one_shot(config: PruneConfig) -> PruneConfig {
    config
        // There is no batch, and so no gradient.
        .with_score(Score::Magnitude)
        .with_ramp(Ramp::one_shot(Moment::Steps(0)))
        .with_regrow(Regrow::Never)
        .with_decay(0.0)
        .with_attract(0.0)
}

/// A candidate to try.
struct Planned {
    name: String,
    pattern: Pattern,
    target: f64,
}

impl Planned {
    /// Returns the plan that prunes only this weight, in one shot.
    fn plan<M: Module>(&self, recipe: &Recipe, model: &M) -> Result<Plan, RunError> {
        let one = |first: PruneConfig| {
            one_shot(alone(first, &self.name)).with_pattern(self.pattern, self.target)
        };
        let prune = recipe.prune.first().cloned().map(one).into_iter().collect();
        let recipe = Recipe { prune, ..recipe.clone() };
        Ok(Plan::new(recipe.pruning(), model, Horizon::steps(0))?)
    }
}

/// Returns the paths of the weights that a recipe prunes.
fn names<M: Module>(recipe: &Recipe, model: &M) -> Result<Vec<String>, RunError> {
    // Only the selection of weights matters, so any ramp will do.
    let prune = recipe.prune.iter().cloned().map(one_shot);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_a_pattern_does_not_allow_are_left_out() {
        let recipe = |keys: &str| -> Recipe {
            let text = format!(
                "version = 1\ntask = \"glyphs-mlp\"\n[train]\nprune_epochs = 2\n[[prune]]\nsparsity = 0.75\n\
                 pattern = \"shfl-bw(vector=4)\"\nend = \"1 epochs\"\n{keys}\n"
            );
            text.parse().unwrap()
        };
        let candidate = |pattern: &str| Candidate {
            name: "a.weight".into(),
            pattern: pattern.into(),
            target: 0.75,
            sparsity: 0.75,
            error: 0.1,
        };
        for keys in
            ["regrow = \"straight-through\"\nattract = 0.001", "regrow = \"straight-through\"", ""]
        {
            for pattern in ["balanced(block=32)", "shfl-bw(vector=8)", "hinm(vector=4,keep=2,of=4)"]
            {
                let one = one_table_each(&recipe(keys), std::iter::once(&candidate(pattern)));
                let written = Recipe::parse_with(&one.unwrap().to_toml(), &[]);
                let regrow = written.unwrap_or_else(|error| panic!("{keys} {pattern}: {error}"));
                let regrow = regrow.prune[0].regrow();
                assert!(!pattern.starts_with("hinm") || regrow == Regrow::StraightThrough);
            }
        }
    }
}
