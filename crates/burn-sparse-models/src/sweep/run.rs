use std::path::Path;

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::plan::Plan;
use serde::{Deserialize, Serialize};

use super::Sweep;
use super::grid::Planned;
use crate::run::{Begin, DataSource, Observer, Outcome, RunError, RunFolder, train};
use crate::{Metric, Task};

/// Mean and range over seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// What is measured.
    pub name: String,
    /// The mean.
    pub mean: f64,
    /// The lowest.
    pub min: f64,
    /// The highest.
    pub max: f64,
    /// Every seed's, in order.
    pub values: Vec<f64>,
}

/// One method, pattern and sparsity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The method's name; empty for the recipe as it is.
    pub method: String,
    /// The pattern, as a recipe spells it.
    pub pattern: String,
    /// The share of zeros asked for.
    pub target: f64,
    /// The share of zeros reached: whole counts may not hit the target.
    pub sparsity: f64,
    /// The metric of the packed checkpoints.
    pub metric: Spread,
}

/// What a sweep found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// The task.
    pub task: String,
    /// The dense checkpoints that all runs began with.
    pub dense: Spread,
    /// The grid, methods outermost, sparsities innermost.
    pub rows: Vec<Row>,
}

/// Trains what is not there yet, and reads what is: each run has its own folder under `folder`, so that
/// the same sweep goes on where it was stopped, and a larger one reuses a smaller one's runs.
///
/// Nothing comes back where the observer ended it; `done` hears of every finished run.
///
/// # Errors
/// When the grid holds an impossible cell, before anything is trained; later as a run's.
pub fn sweep<T: Task>(
    task: &T,
    sweep: &Sweep,
    data_dir: Option<&Path>,
    folder: &Path,
    device: &Device,
    observer: &mut dyn Observer,
    done: &mut dyn FnMut(&str, &Metric),
) -> Result<Option<SweepReport>, RunError> {
    let cells = sweep.cells()?;
    // Whatever is wrong with any of them is said before the first is trained.
    let model = task.model(device);
    for cell in &cells {
        if let Some(Planned { recipe, .. }) = cell.runs.first() {
            Plan::new(recipe, &model, task.train_len().div_ceil(recipe.train.batch_size))?;
        }
    }
    let source = DataSource::new(data_dir);
    let mut runner = Runner { task, source: &source, folder, device, observer, done };
    let mut one = |planned: &Planned, from: Option<&Checkpoint>| runner.one(planned, from);

    let mut dense = Vec::new();
    for planned in sweep.dense() {
        let Some(found) = one(&planned, None)? else { return Ok(None) };
        dense.push(found);
    }
    let mut rows = Vec::new();
    for cell in &cells {
        let mut found = Vec::new();
        for (planned, dense) in cell.runs.iter().zip(&dense) {
            let Some(result) = one(planned, Some(&dense.checkpoint))? else { return Ok(None) };
            found.push(result);
        }
        rows.push(Row {
            method: cell.method.clone(),
            pattern: cell.pattern.to_string(),
            target: cell.target,
            sparsity: found.iter().map(|run| run.sparsity).sum::<f64>() / found.len() as f64,
            metric: spread(&found),
        });
    }
    let task = sweep.recipe.task.clone();
    Ok(Some(SweepReport { task, dense: spread(&dense), rows }))
}

/// Trains runs into folders below one.
pub(super) struct Runner<'a, T: Task> {
    pub(super) task: &'a T,
    pub(super) source: &'a DataSource<'a, T>,
    pub(super) folder: &'a Path,
    pub(super) device: &'a Device,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) done: &'a mut dyn FnMut(&str, &Metric),
}

impl<T: Task> Runner<'_, T> {
    /// Trains a run, or goes on with it, or reads what is finished; nothing comes back where the observer
    /// ended it.
    pub(super) fn one(
        &mut self,
        planned: &Planned,
        from: Option<&Checkpoint>,
    ) -> Result<Option<Finished>, RunError> {
        let run = RunFolder::new(self.folder.join(&planned.folder));
        if let Some(found) = finished(&run, planned)? {
            return Ok(Some(found));
        }
        let begin = match (run.is_begun(), from) {
            (true, _) => Begin::Resume,
            (false, Some(checkpoint)) => Begin::From(checkpoint),
            (false, None) => Begin::Fresh,
        };
        let devices = [self.device.clone()];
        let (recipe, observer) = (&planned.recipe, &mut *self.observer);
        let outcome = train(self.task, recipe, self.source, &run, begin, &devices, observer)?;
        let Outcome::Trained(trained) = outcome else { return Ok(None) };
        (self.done)(&planned.folder, &trained.metric);
        finished(&run, planned)
    }
}

/// A finished run.
pub(super) struct Finished {
    pub(super) metric: Metric,
    sparsity: f64,
    pub(super) checkpoint: Checkpoint,
}

/// The run of a folder, if it is finished.
fn finished(run: &RunFolder, planned: &Planned) -> Result<Option<Finished>, RunError> {
    if !run.checkpoint().exists() {
        return Ok(None);
    }
    run.expect_recipe(&planned.recipe)?;
    let checkpoint = Checkpoint::read(run.checkpoint())?;
    let results = &checkpoint.provenance.results;
    // The file is written once before its results are known.
    let metric = serde_json::from_value(results["metric"].clone()).ok();
    let sparsity = results["sparsity"].as_f64().unwrap_or(0.0);
    Ok(metric.map(|metric| Finished { metric, sparsity, checkpoint }))
}

fn spread(runs: &[Finished]) -> Spread {
    let values: Vec<f64> = runs.iter().map(|run| run.metric.value).collect();
    Spread {
        name: runs.first().map_or(String::new(), |run| run.metric.name.clone()),
        mean: values.iter().sum::<f64>() / values.len() as f64,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        values,
    }
}
