use std::path::Path;

use burn_sparse::checkpoint::write_atomically;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::run::RunError;
use burn_sparse_run::sweep::{
    self, Budget, Budgeted, LayerTime, Sensitivity, SensitivityEvent, SweepPlace,
};
use burn_sparse_run::{Metric, Task, TaskVisitor, with_task};
use serde::Serialize;

use super::super::Failure;
use super::SweepArguments;
use super::job::Job;
use crate::output::{self, Progress};

/// Measures the sensitivity of each weight.
pub(super) fn run(job: Job<'_>) -> Result<(), Failure> {
    let Job { sweep, arguments, folder, .. } = job;
    let Some(found) = with_task(&sweep.recipe, Try(job))?? else {
        return Err("interrupted; the same command goes on with the dense model it has".into());
    };
    let budgeted = budget(arguments).map(|budget| found.within(budget)).transpose();
    let chosen = budgeted.as_ref().ok().and_then(Option::as_ref);
    let report = Report { device: &arguments.device, found: &found, budgeted: chosen };
    let file = folder.join("sensitivity.json");
    write_atomically(&file, &serde_json::to_vec_pretty(&report)?)?;
    if !arguments.json {
        // Printed before the recipe: if there is none to write, the table shows why.
        let (dense, table) = (&found.dense, table(&found));
        output::text(&format!("dense: {dense}\n\n{table}\n\n{}", file.display()))?;
        if let Some(chosen) = chosen {
            output::text(&kept(chosen))?;
        }
    }
    if let Some(path) = &arguments.write {
        let recipe = match &budgeted {
            Ok(None) => found.recipe(&sweep.recipe, arguments.allow),
            Ok(Some(chosen)) => chosen.recipe(&sweep.recipe),
            Err(error) => return Err(error.clone().into()),
        };
        let recipe = recipe.ok_or_else(|| {
            let allowed = arguments.allow;
            format!("no weight loses {allowed} or less at any of these sparsities: raise --allow")
        })?;
        write(&recipe, path)?;
    }
    if arguments.json { output::json(&report) } else { Ok(()) }
}

/// Returns the budget that was asked for.
fn budget(arguments: &SweepArguments) -> Option<Budget> {
    let time = arguments.budget.map(|time| Budget::Microseconds(1e6 * time.as_secs_f64()));
    time.or(arguments.speedup.map(Budget::Speedup))
}

/// Formats the sparsities that keep to a budget.
fn kept(found: &Budgeted) -> String {
    let Budgeted { batch, dense_us, budget_us, predicted_us, predicted_error, .. } = found;
    let mut cells =
        vec![["weight", "sparsity", "predicted us", "error"].map(String::from).to_vec()];
    cells.extend(found.weights.iter().map(|trial| {
        let time = trial.time.map_or(String::new(), |time| format!("{:.1}", time.sparse_us));
        let sparsity = format!("{:.2} %", 100.0 * trial.sparsity);
        vec![trial.name.clone(), sparsity, time, format!("{:.2e}", trial.error)]
    }));
    format!(
        "{}\n\npredicted for a batch of {batch}: {predicted_us:.0} us, of {budget_us:.0} us allowed and {dense_us:.0} us \
         dense; error {predicted_error:.2e}",
        output::table(&cells)
    )
}

/// Writes a recipe.
fn write(recipe: &Recipe, path: &Path) -> Result<(), Failure> {
    write_atomically(path, recipe.to_toml().as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    output::note(&format!("{}: a recipe of {} tables", path.display(), recipe.prune.len()));
    Ok(())
}

/// Output of `--json`, and content of `sensitivity.json`.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    #[serde(flatten)]
    found: &'a Sensitivity,
    #[serde(skip_serializing_if = "Option::is_none")]
    budgeted: Option<&'a Budgeted>,
}

struct Try<'a>(Job<'a>);

impl TaskVisitor for Try<'_> {
    type Output = Result<Option<Sensitivity>, RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let Job { sweep, arguments, folder, device } = self.0;
        let mut progress = Progress::of_many();
        let print = progress.lines();
        let mut watch = |event: SensitivityEvent<'_>| match event {
            SensitivityEvent::Run(run, metric) => print(&format!("{run}: {metric}")),
            SensitivityEvent::Trial(trial) => {
                let percent = 100.0 * trial.sparsity;
                print(&format!("{} {} {percent:.1} %", trial.name, trial.pattern));
            }
        };
        let place = SweepPlace { data_dir: arguments.data_dir.as_deref(), folder, device };
        let batch = budget(arguments).map(|_| arguments.batch);
        sweep::sensitivity(&task, sweep, batch, place, &mut progress, &mut watch)
    }
}

fn table(found: &Sensitivity) -> String {
    let metric = found.dense.name.replace('_', " ");
    let heading = ["weight", "pattern", "sparsity", &metric, "worse by", "error"];
    let mut heading = heading.map(String::from).to_vec();
    if found.latency.is_some() {
        heading.extend(["dense us", "packed us"].map(String::from));
    }
    let mut cells = vec![heading];
    cells.extend(found.trials.iter().map(|trial| {
        let written = |value: f64| Metric::written(&found.dense.name, value);
        let sparsity = format!("{:.2} %", 100.0 * trial.sparsity);
        let (value, loss) = (written(trial.value), written(trial.loss));
        let error = format!("{:.2e}", trial.error);
        let mut line =
            vec![trial.name.clone(), trial.pattern.clone(), sparsity, value, loss, error];
        if found.latency.is_some() {
            let us = |us: fn(&LayerTime) -> f64| {
                trial.time.as_ref().map_or("-".into(), |time| format!("{:.1}", us(time)))
            };
            line.extend([us(|time| time.dense_us), us(|time| time.sparse_us)]);
        }
        line
    }));
    output::table(&cells)
}
