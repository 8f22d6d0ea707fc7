use burn::module::Module;
use burn::tensor::Device;
use burn_sparse::measure::{Bench, alternate};
use burn_sparse::nn::{KernelInput, record_dispatch};
use burn_sparse::pattern::format::FloatType;
use burn_sparse::pattern::{Distribution, Packed, Pattern};
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
    /// Latency of the dense model, if times were measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<DenseLatency>,
    /// Trials of every weight under every pattern at every sparsity, weight by weight.
    pub trials: Vec<Trial>,
}

/// Latency of the dense model on a batch, until its outputs are read.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct DenseLatency {
    /// Number of samples of the batch.
    pub batch: usize,
    /// Median microseconds.
    pub dense_us: f64,
}

/// Microseconds of a layer in one pass of the model, from medians on the input that a batch gives it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LayerTime {
    /// With the dense weight.
    pub dense_us: f64,
    /// With the packed weight.
    pub sparse_us: f64,
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
    /// Mean squared difference of the model's outputs from the dense model's, relative to the mean square of those.
    pub error: f64,
    /// Times of the weight's layer, if times were measured and the layer runs packed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<LayerTime>,
}

/// Number of test samples whose outputs are compared.
const COMPARED: usize = 64;

/// Prunes every weight that the recipe prunes alone, in the dense model of its first seed, which is trained first if
/// necessary. With a `batch`, also times the dense model on so many samples, and every layer with its dense and its packed
/// weight on the input that it has then: [`Sensitivity::within`] needs these.
///
/// Returns `None` if the observer interrupted it. Calls `watch` for every finished run and every trial.
///
/// # Errors
/// As [`sweep`](super::sweep).
pub fn sensitivity<T: Task>(
    task: &T,
    sweep: &Sweep,
    batch: Option<usize>,
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
    let outputs = |model: &T::Model, samples| task.outputs(&data, model, samples, place.device);
    let plain = model.valid();
    let samples = COMPARED.min(task.test_len(&data));
    let expected = outputs(&plain, samples);
    let batch = batch.map(|batch| batch.min(task.test_len(&data)));
    let latency = batch.map(|batch| {
        let pass = |repeats: usize| (0..repeats).for_each(|_| drop(outputs(&plain, batch)));
        let [seconds] = alternate(1, [&pass]);
        DenseLatency { batch, dense_us: 1e6 * seconds }
    });
    let mut times = Times { device: place.device, found: Vec::new() };
    let mut trials = Vec::new();
    for planned in grid {
        if observer.interrupted() {
            return Ok(None);
        }
        let plan = planned.plan(&sweep.recipe, &model)?;
        let pruned = plan.attach(model.clone())?.finish()?;
        let alone = pruned.model().valid();
        let value = task.evaluate(&data, &alone, place.device)?.value;
        let worse =
            if lower_is_better { value - dense.metric.value } else { dense.metric.value - value };
        let (pattern, sparsity) = (planned.pattern, pruned.sparsity());
        let time = match (batch, pruned.packed().values().next()) {
            (Some(batch), Some(weight)) => {
                let packed = pruned.pack().valid();
                let (_, ran) = record_dispatch(|| outputs(&packed, batch));
                let inputs: Vec<KernelInput> = ran.iter().map(|ran| ran.input).collect();
                times.of(weight, pattern, &inputs)?
            }
            _ => None,
        };
        let trial = Trial {
            name: planned.name,
            pattern: pattern.to_string(),
            target: planned.target,
            sparsity,
            value,
            loss: worse,
            error: difference(&expected, &outputs(&alone, samples)),
            time,
        };
        watch(SensitivityEvent::Trial(&trial));
        trials.push(trial);
    }
    let task = sweep.recipe.task.clone();
    Ok(Some(Sensitivity { task, dense: dense.metric, lower_is_better, latency, trials }))
}

/// Times of layers, each kind of which is measured once.
struct Times<'a> {
    device: &'a Device,
    found: Vec<(Kind, LayerTime)>,
}

/// Key of a layer's time: rows, columns, kept weights, pattern, and input.
type Kind = (usize, usize, usize, Pattern, KernelInput);

impl Times<'_> {
    /// Returns the time of all calls of a layer in one pass of the model: an LSTM calls its weights at every step.
    fn of(
        &mut self,
        weight: &Packed,
        pattern: Pattern,
        calls: &[KernelInput],
    ) -> Result<Option<LayerTime>, RunError> {
        let mut all: Option<LayerTime> = None;
        for &input in calls {
            let call = self.call(weight, pattern, input)?;
            let so_far = all.get_or_insert(LayerTime { dense_us: 0.0, sparse_us: 0.0 });
            so_far.dense_us += call.dense_us;
            so_far.sparse_us += call.sparse_us;
        }
        Ok(all)
    }

    fn call(
        &mut self,
        weight: &Packed,
        pattern: Pattern,
        input: KernelInput,
    ) -> Result<LayerTime, RunError> {
        let kind = (weight.rows(), weight.cols(), weight.mask().kept(), pattern, input);
        if let Some((_, time)) = self.found.iter().find(|(known, _)| *known == kind) {
            return Ok(*time);
        }
        let row = Bench::for_input(weight, pattern, FloatType::F32, self.device, &input)
            .row(input.inputs())?;
        let time = LayerTime { dense_us: row.dense_us, sparse_us: row.sparse_us };
        self.found.push((kind, time));
        Ok(time)
    }
}

/// Returns the mean squared difference, relative to the mean square of what was expected.
fn difference(expected: &[f32], found: &[f32]) -> f64 {
    let square = |value: f32| f64::from(value) * f64::from(value);
    let off: f64 = expected.iter().zip(found).map(|(a, b)| square(a - b)).sum();
    off / expected.iter().map(|&value| square(value)).sum::<f64>().max(f64::MIN_POSITIVE)
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
        let mut chosen: Vec<&Trial> = Vec::new();
        for trial in self.trials.iter().filter(|trial| trial.loss <= allowed) {
            match chosen.iter_mut().find(|old| old.name == trial.name) {
                Some(old) if old.target < trial.target => *old = trial,
                Some(_) => {}
                None => chosen.push(trial),
            }
        }
        one_table_each(recipe, chosen.into_iter())
    }
}

/// Returns the recipe with one table for each trial, at its pattern and sparsity; `None` without any. Other keys are those of
/// the recipe's first table.
pub(super) fn one_table_each<'a>(
    recipe: &Recipe,
    trials: impl Iterator<Item = &'a Trial>,
) -> Option<Recipe> {
    let first = recipe.prune.first()?;
    let regrow = match first.regrow() {
        Regrow::GrowAndPrune(_) => Regrow::Never,
        other => other,
    };
    let table = |trial: &Trial| {
        let pattern = trial.pattern.parse::<Pattern>().ok()?;
        let table = alone(first.clone(), &trial.name).with_regrow(regrow);
        Some(table.with_pattern(pattern, trial.target))
    };
    let tables: Vec<PruneConfig> = trials.filter_map(table).collect();
    (!tables.is_empty()).then(|| Recipe { prune: tables, ..recipe.clone() })
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
