use std::path::Path;

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use serde::{Deserialize, Serialize};

use super::Sweep;
use super::grid::Planned;
use crate::run::{
    Begin, DataSource, Observer, Outcome, Results, RunError, RunFolder, TrainOptions, train,
};
use crate::{Metric, Task};

/// Mean and range over seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Name of the metric.
    pub name: String,
    /// Mean.
    pub mean: f64,
    /// Lowest value.
    pub min: f64,
    /// Highest value.
    pub max: f64,
    /// Values of all seeds, in order.
    pub values: Vec<f64>,
}

/// Results of a method, pattern, and sparsity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepRow {
    /// Name of the method; empty for the unchanged recipe.
    pub method: String,
    /// Pattern, as a recipe spells it.
    pub pattern: String,
    /// Requested share of zeros.
    pub target: f64,
    /// Share of zeros, which whole counts may round.
    pub sparsity: f64,
    /// Metric of the packed checkpoints.
    pub metric: Spread,
}

/// Results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// Task.
    pub task: String,
    /// Metric of the dense checkpoints that all runs began with.
    pub dense: Spread,
    /// Rows of the grid, methods outermost, sparsities innermost.
    pub rows: Vec<SweepRow>,
}

/// Folders and device of a sweep.
#[derive(Debug, Clone, Copy)]
pub struct SweepPlace<'a> {
    /// Folder of the data, or `None` for the data sets' own caches.
    pub data_dir: Option<&'a Path>,
    /// Folder of the runs.
    pub folder: &'a Path,
    /// Device.
    pub device: &'a Device,
}

/// Trains the runs that are not finished, and reads those that are. Every run has its own folder, so that the same sweep
/// continues where it was stopped, and a larger one reuses the runs of a smaller one.
///
/// Returns `None` if the observer interrupted it. Calls `done` for every finished run.
///
/// # Errors
/// When the grid has an impossible cell, before anything is trained; later, when a run fails.
pub fn sweep<T: Task>(
    task: &T,
    sweep: &Sweep,
    place: SweepPlace<'_>,
    observer: &mut dyn Observer,
    done: &mut dyn FnMut(&str, &Metric),
) -> Result<Option<SweepReport>, RunError> {
    let cells = sweep.cells()?;
    // Everything that can be wrong is reported before the first run.
    let model = task.model(place.device);
    for cell in &cells {
        if let Some(Planned { recipe, .. }) = cell.runs.first() {
            task.check(recipe)?;
            let steps_per_epoch = task.train_len().div_ceil(recipe.train.batch_size);
            recipe.plan(&model, steps_per_epoch)?;
        }
    }
    let source = DataSource::new(place.data_dir);
    let mut runner = Runner { task, source: &source, place, observer, done };
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
        rows.push(SweepRow {
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
    pub(super) place: SweepPlace<'a>,
    pub(super) observer: &'a mut dyn Observer,
    pub(super) done: &'a mut dyn FnMut(&str, &Metric),
}

impl<T: Task> Runner<'_, T> {
    /// Trains or resumes a run, or reads a finished one; returns `None` if the observer interrupted it.
    pub(super) fn one(
        &mut self,
        planned: &Planned,
        from: Option<&Checkpoint>,
    ) -> Result<Option<Finished>, RunError> {
        let run = RunFolder::new(self.place.folder.join(&planned.folder));
        if let Some(found) = finished(&run, planned)? {
            return Ok(Some(found));
        }
        let begin = match (run.is_begun(), from) {
            (true, _) => Begin::Resume,
            (false, Some(checkpoint)) => Begin::From(checkpoint),
            (false, None) => Begin::Fresh,
        };
        let options = TrainOptions {
            task: self.task,
            recipe: &planned.recipe,
            source: self.source,
            folder: &run,
            begin,
            devices: std::slice::from_ref(self.place.device),
        };
        let outcome = train(&options, self.observer)?;
        let Outcome::Trained(trained) = outcome else { return Ok(None) };
        (self.done)(&planned.folder, &trained.metric);
        finished(&run, planned)
    }
}

/// Finished run.
pub(super) struct Finished {
    pub(super) metric: Metric,
    sparsity: f64,
    pub(super) checkpoint: Checkpoint,
}

/// Reads the run of a folder, if it is finished.
fn finished(run: &RunFolder, planned: &Planned) -> Result<Option<Finished>, RunError> {
    if !run.checkpoint().exists() {
        return Ok(None);
    }
    run.expect_recipe(&planned.recipe)?;
    let checkpoint = Checkpoint::read(run.checkpoint())?;
    let results = Results::of(&checkpoint);
    Ok(results.map(|Results { metric, sparsity, .. }| Finished { metric, sparsity, checkpoint }))
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
