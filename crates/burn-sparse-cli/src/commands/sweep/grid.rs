use burn_sparse::checkpoint::write_atomically;
use burn_sparse_run::run::RunError;
use burn_sparse_run::sweep::{self, Spread, SweepOutcome, SweepPlace, SweepReport};
use burn_sparse_run::{Metric, Task, TaskVisitor, with_task};
use serde::Serialize;

use super::super::Failure;
use super::SweepArguments;
use super::job::Job;
use crate::output::{self, Progress};

/// Trains every pattern at every sparsity by every method, from one dense checkpoint for each seed.
pub(super) fn run(job: Job<'_>) -> Result<(), Failure> {
    let Job { sweep, arguments, folder, .. } = job;
    let report = match with_task(&sweep.recipe, Train(job))?? {
        SweepOutcome::Complete(report) => report,
        SweepOutcome::Missing(missing) => return incomplete(arguments, missing),
        _ => return Err("interrupted; the same command goes on".into()),
    };
    let report = Report { device: &arguments.device, report: &report };
    let file = folder.join("sweep.json");
    write_atomically(&file, &serde_json::to_vec_pretty(&report)?)?;
    if arguments.json {
        return output::json(&report);
    }
    output::text(&format!("{}\n\n{}", table(report.report), file.display()))
}

/// Reports which runs of other shards are missing.
fn incomplete(arguments: &SweepArguments, missing: Vec<String>) -> Result<(), Failure> {
    let shard = arguments.shard.to_string();
    if arguments.json {
        return output::json(&Incomplete { device: &arguments.device, shard, missing });
    }
    output::text(&format!(
        "shard {shard} is finished; of other shards {} runs are missing:\n  {}",
        missing.len(),
        missing.join("\n  ")
    ))
}

/// Output of `--json` while runs of other shards are missing.
#[derive(Serialize)]
struct Incomplete<'a> {
    device: &'a str,
    shard: String,
    missing: Vec<String>,
}

/// Output of `--json`, and content of `sweep.json`.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    #[serde(flatten)]
    report: &'a SweepReport,
}

struct Train<'a>(Job<'a>);

impl TaskVisitor for Train<'_> {
    type Output = Result<SweepOutcome, RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let Job { sweep, arguments, folder, device } = self.0;
        let mut progress = Progress::of_many();
        let print = progress.lines();
        let mut done = |run: &str, metric: &Metric| {
            print(&format!("{run}: {metric}"));
        };
        let place = SweepPlace { data_dir: arguments.data_dir.as_deref(), folder, device };
        sweep::sweep(&task, sweep, arguments.shard, place, &mut progress, &mut done)
    }
}

fn table(report: &SweepReport) -> String {
    let heading = ["method", "pattern", "sparsity", &report.dense.name, "range", "seeds"];
    let mut cells = vec![heading.map(String::from).to_vec()];
    let row = |method: &str, pattern: &str, sparsity: String, spread: &Spread| {
        let written = |value: f64| Metric::written(&spread.name, value);
        let range = format!("{} to {}", written(spread.min), written(spread.max));
        let mean = written(spread.mean);
        let seeds = spread.values.len().to_string();
        vec![method.to_string(), pattern.to_string(), sparsity, mean, range, seeds]
    };
    cells.push(row("dense", "-", "-".into(), &report.dense));
    for found in &report.rows {
        let method = if found.method.is_empty() { "-" } else { &found.method };
        let sparsity = format!("{:.2} %", 100.0 * found.sparsity);
        cells.push(row(method, &found.pattern, sparsity, &found.metric));
    }
    output::table(&cells)
}
