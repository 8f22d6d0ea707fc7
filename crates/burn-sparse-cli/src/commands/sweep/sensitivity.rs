use burn_sparse::checkpoint::write_atomically;
use burn_sparse_run::run::RunError;
use burn_sparse_run::sweep::{self, Sensitivity};
use burn_sparse_run::{Metric, Task, TaskVisitor, with_task};
use serde::Serialize;

use super::super::Failure;
use super::job::Job;
use crate::output::{self, Progress};

/// Measures the sensitivity of each weight.
pub(super) fn run(job: Job<'_>) -> Result<(), Failure> {
    let Job { sweep, arguments, folder, .. } = job;
    let found = with_task(&sweep.recipe, Try(job))??.ok_or(Job::INTERRUPTED)?;
    let report = Report { device: &arguments.device, found: &found };
    let file = folder.join("sensitivity.json");
    write_atomically(&file, &serde_json::to_vec_pretty(&report)?)?;
    if !arguments.json {
        // Printed before the recipe: if there is none to write, the table shows why.
        let (dense, table) = (&found.dense, table(&found));
        output::text(&format!("dense: {dense}\n\n{table}\n\n{}", file.display()))?;
    }
    if let Some(path) = &arguments.write {
        let recipe = found.recipe(&sweep.recipe, arguments.allow).ok_or_else(|| {
            let allowed = arguments.allow;
            format!("no weight loses {allowed} or less at any of these sparsities: raise --allow")
        })?;
        Job::write(&recipe, path)?;
    }
    if arguments.json { output::json(&report) } else { Ok(()) }
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
        let mut progress = Progress::of_many();
        let mut watch = Job::watch(progress.lines());
        sweep::sensitivity(&task, self.0.sweep, self.0.place(), &mut progress, &mut watch)
    }
}

fn table(found: &Sensitivity) -> String {
    let metric = found.dense.name.replace('_', " ");
    let heading = ["weight", "pattern", "sparsity", &metric, "worse by", "output error"];
    let mut cells = vec![heading.map(String::from).to_vec()];
    cells.extend(found.trials.iter().map(|trial| {
        let written = |value: f64| Metric::written(&found.dense.name, value);
        let candidate = &trial.candidate;
        let sparsity = format!("{:.2} %", 100.0 * candidate.sparsity);
        let (value, loss) = (written(trial.value), written(trial.loss));
        let error = format!("{:.2e}", candidate.error);
        vec![candidate.name.clone(), candidate.pattern.clone(), sparsity, value, loss, error]
    }));
    output::table(&cells)
}
