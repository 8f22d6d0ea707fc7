use std::path::Path;
use std::time::Duration;

use burn::tensor::Device;
use burn_sparse::calibrate::CalibrationStep;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::distributed::Ranks;
use serde::{Deserialize, Serialize};

use super::claim::{Claim, Claims, LEASE};
use super::grid::{Cell, Planned};
use super::{Shard, Sweep};
use crate::run::{
    Begin, DataSource, EpochReport, Observer, Outcome, Phase, Results, RunError, RunFolder,
    TrainOptions, refuse_training, train,
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
    /// Share of zeros, which may be rounded to whole counts.
    pub sparsity: f64,
    /// Metric of the packed checkpoints.
    pub metric: Spread,
}

/// Results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepReport {
    /// Task.
    pub task: String,
    /// Metric of the dense checkpoints that all runs started from.
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

/// End of a sweep.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SweepOutcome {
    /// All runs are finished.
    Complete(SweepReport),
    /// The shard is finished, but these runs of other shards are not.
    Missing(Vec<String>),
    /// The observer interrupted it.
    Interrupted,
}

/// Trains the runs of a shard that are not finished, and reads those that are. Every run has its own folder, so the same
/// sweep continues where it was stopped, and a larger one reuses the runs of a smaller one. Several processes may share the
/// folder: each run, the dense ones included, is trained by one of them, and the others wait for it if they need it.
///
/// Calls `done` for every finished run.
///
/// # Errors
/// Returns an error when the grid has an impossible cell, before anything is trained; later, when a
/// run fails.
pub fn sweep<T: Task>(
    task: &T,
    sweep: &Sweep,
    shard: Shard,
    place: SweepPlace<'_>,
    observer: &mut dyn Observer,
    done: &mut dyn FnMut(&str, &Metric),
) -> Result<SweepOutcome, RunError> {
    let cells = sweep.cells()?;
    // Reports everything that can be wrong before the first run.
    let model = task.model(place.device);
    for cell in &cells {
        if let Some(Planned { recipe, .. }) = cell.runs.first() {
            task.check(recipe)?;
            let steps_per_epoch = task.train_len().div_ceil(recipe.train.batch_size);
            recipe.plan(&model, steps_per_epoch)?;
            refuse_training(task, recipe, &model)?;
        }
    }
    let source = DataSource::new(place.data_dir);
    let mut runner = Runner { task, source: &source, place, observer, done };
    let dense = sweep.dense();
    let runs: Vec<&Planned> = cells.iter().flat_map(|cell| &cell.runs).collect();
    let of_shard = |run: &usize| shard.has(*run);

    let mut begun_with = Vec::new();
    for (seed, planned) in dense.iter().enumerate() {
        let needed = (0..runs.len()).filter(of_shard).any(|run| run % dense.len() == seed);
        let found = if needed { runner.one(planned, None)? } else { None };
        if needed && found.is_none() {
            return Ok(SweepOutcome::Interrupted);
        }
        begun_with.push(found);
    }
    for run in (0..runs.len()).filter(of_shard) {
        let from = begun_with[run % dense.len()].as_ref().map(|dense| &dense.checkpoint);
        if runner.one(runs[run], from)?.is_none() {
            return Ok(SweepOutcome::Interrupted);
        }
    }
    collate(&sweep.recipe.task, &dense, &cells, place.folder)
}

/// Reads all runs of a sweep.
fn collate(
    task: &str,
    dense: &[Planned],
    cells: &[Cell],
    folder: &Path,
) -> Result<SweepOutcome, RunError> {
    let mut missing = Vec::new();
    let mut read = |runs: &[Planned]| -> Result<Vec<Finished>, RunError> {
        let mut found = Vec::new();
        for planned in runs {
            match finished(&RunFolder::new(folder.join(&planned.folder)), planned)? {
                Some(run) => found.push(run),
                None => missing.push(planned.folder.clone()),
            }
        }
        Ok(found)
    };
    let dense = spread(&read(dense)?);
    let mut rows = Vec::new();
    for cell in cells {
        let found = read(&cell.runs)?;
        rows.push(SweepRow {
            method: cell.method.clone(),
            pattern: cell.pattern.to_string(),
            target: cell.target,
            sparsity: found.iter().map(|run| run.sparsity).sum::<f64>() / found.len() as f64,
            metric: spread(&found),
        });
    }
    if !missing.is_empty() {
        return Ok(SweepOutcome::Missing(missing));
    }
    Ok(SweepOutcome::Complete(SweepReport { task: task.into(), dense, rows }))
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
    /// Trains or resumes a run, or reads a finished one, which another process may have trained in the meantime; returns
    /// `None` if the observer interrupted it.
    pub(super) fn one(
        &mut self,
        planned: &Planned,
        from: Option<&Checkpoint>,
    ) -> Result<Option<Finished>, RunError> {
        let run = RunFolder::new(self.place.folder.join(&planned.folder));
        let mut claims = Claims::new(self.place.folder, &planned.folder, LEASE);
        let mut waits = false;
        loop {
            if let Some(found) = finished(&run, planned)? {
                return Ok(Some(found));
            }
            let claimed = claims.attempt().map_err(|error| RunError::Claim {
                folder: run.path().into(),
                reason: error.to_string(),
            })?;
            if let Some(claim) = claimed {
                // Its last holder may have finished it between the two checks.
                if let Some(found) = finished(&run, planned)? {
                    return Ok(Some(found));
                }
                match self.train(&run, planned, from, &claim) {
                    // Another process is using it without a claim, as `train` does.
                    Err(RunError::InUse { .. }) => {}
                    trained => return if trained? { finished(&run, planned) } else { Ok(None) },
                }
            }
            if !waits {
                let run = &planned.folder;
                tracing::info!(run, "another process is training it, or left it: waiting");
                waits = true;
            }
            if self.observer.interrupted() {
                return Ok(None);
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }

    /// Trains a run under a claim. Returns `false` if the observer interrupted it.
    fn train(
        &mut self,
        run: &RunFolder,
        planned: &Planned,
        from: Option<&Checkpoint>,
        claim: &Claim,
    ) -> Result<bool, RunError> {
        let begin = match (run.is_begun(), from) {
            (true, _) => Begin::Resume,
            (false, Some(checkpoint)) => Begin::From(checkpoint),
            (false, None) => Begin::Fresh,
        };
        let options = TrainOptions {
            task: self.task,
            recipe: &planned.recipe,
            source: self.source,
            folder: run,
            begin,
            devices: std::slice::from_ref(self.place.device),
            ranks: &Ranks::alone(),
        };
        let outcome = train(&options, &mut Claimed { observer: self.observer, claim })?;
        if claim.is_lost() {
            let reason = "another process took the run over, because this one was suspended";
            return Err(RunError::Claim { folder: run.path().into(), reason: reason.into() });
        }
        let Outcome::Trained(trained) = outcome else { return Ok(false) };
        (self.done)(&planned.folder, &trained.metric);
        Ok(true)
    }
}

/// Time between two checks of a run that another process trains.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// Observer that stops a run whose claim is lost.
struct Claimed<'a> {
    observer: &'a mut dyn Observer,
    claim: &'a Claim,
}

impl Observer for Claimed<'_> {
    fn step(&mut self, phase: Phase, epoch: usize, step: usize, steps: usize, loss: f64) {
        self.observer.step(phase, epoch, step, steps, loss);
    }

    fn epoch(&mut self, report: &EpochReport) {
        self.observer.epoch(report);
    }

    fn calibrated(&mut self, step: CalibrationStep<'_>) {
        self.observer.calibrated(step);
    }

    fn interrupted(&self) -> bool {
        self.claim.is_lost() || self.observer.interrupted()
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
