use std::path::Path;

use burn_sparse::checkpoint::write_atomically;
use burn_sparse_run::run::RunError;
use burn_sparse_run::sweep::{self, Sensitivity, SensitivityEvent, Sweep, SweepPlace};
use burn_sparse_run::{Metric, Task, TaskVisitor, with_task};
use serde::Serialize;

use super::super::Failure;
use super::job::Job;
use crate::output::{self, Progress};

/// Measures the sensitivity of each weight.
pub(super) fn run(job: Job<'_>) -> Result<(), Failure> {
    let Job { sweep, arguments, folder, .. } = job;
    let Some(found) = with_task(&sweep.recipe, Try(job))?? else {
        return Err("interrupted; the same command goes on with the dense model it has".into());
    };
    let report = Report { device: &arguments.device, found: &found };
    let file = folder.join("sensitivity.json");
    write_atomically(&file, &serde_json::to_vec_pretty(&report)?)?;
    if !arguments.json {
        // Printed before the recipe: if there is none to write, the table shows why.
        let (dense, table) = (&found.dense, table(&found));
        output::text(&format!("dense: {dense}\n\n{table}\n\n{}", file.display()))?;
    }
    if let Some(path) = &arguments.write {
        write(&found, sweep, path, arguments.allow)?;
    }
    if arguments.json { output::json(&report) } else { Ok(()) }
}

/// Writes the recipe with the highest sparsity that each weight allows.
fn write(found: &Sensitivity, sweep: &Sweep, path: &Path, allowed: f64) -> Result<(), Failure> {
    let recipe = found.recipe(&sweep.recipe, allowed).ok_or_else(|| {
        format!("no weight loses {allowed} or less at any of these sparsities: raise --allow")
    })?;
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
        sweep::sensitivity(&task, sweep, place, &mut progress, &mut watch)
    }
}

fn table(found: &Sensitivity) -> String {
    let metric = found.dense.name.replace('_', " ");
    let heading = ["weight", "pattern", "sparsity", &metric, "worse by"];
    let mut cells = vec![heading.map(String::from).to_vec()];
    cells.extend(found.trials.iter().map(|trial| {
        let written = |value: f64| Metric::written(&found.dense.name, value);
        let sparsity = format!("{:.2} %", 100.0 * trial.sparsity);
        let (value, loss) = (written(trial.value), written(trial.loss));
        vec![trial.name.clone(), trial.pattern.clone(), sparsity, value, loss]
    }));
    output::table(&cells)
}
