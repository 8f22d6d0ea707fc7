use burn_sparse::checkpoint::write_atomically;
use burn_sparse_run::run::RunError;
use burn_sparse_run::sweep::{self, Budget, BudgetReport, Budgeted, LayerTime, TimedCandidate};
use burn_sparse_run::{Task, TaskVisitor, with_task};
use serde::Serialize;

use super::super::Failure;
use super::job::Job;
use crate::output::{self, Progress};

/// Chooses a sparsity for each weight, so that the model meets a time budget.
pub(super) fn run(job: Job<'_>, budget: Budget) -> Result<(), Failure> {
    let Job { sweep, arguments, folder, .. } = job;
    let found = with_task(&sweep.recipe, Choose(job, budget))??.ok_or(Job::INTERRUPTED)?;
    let BudgetReport { task, batch, candidates, chosen } = &found;
    let (device, batch) = (&arguments.device, *batch);
    let report = Report { device, task, batch, candidates, chosen: chosen.as_ref().ok() };
    let file = folder.join("budget.json");
    write_atomically(&file, &serde_json::to_vec_pretty(&report)?)?;
    if !arguments.json {
        output::text(&format!("{}\n\n{}", table(candidates), file.display()))?;
    }
    let chosen = chosen.as_ref().map_err(Clone::clone)?;
    if !arguments.json {
        output::text(&kept(chosen, batch))?;
    }
    if let Some(path) = &arguments.write {
        let recipe = chosen.recipe(&sweep.recipe);
        Job::write(&recipe.ok_or("every weight stays dense: there is nothing to prune")?, path)?;
    }
    if arguments.json { output::json(&report) } else { Ok(()) }
}

/// Output of `--json`, and content of `budget.json`.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    task: &'a str,
    batch: usize,
    candidates: &'a [TimedCandidate],
    #[serde(skip_serializing_if = "Option::is_none")]
    chosen: Option<&'a Budgeted>,
}

struct Choose<'a>(Job<'a>, Budget);

impl TaskVisitor for Choose<'_> {
    type Output = Result<Option<BudgetReport>, RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let Self(job, budget) = self;
        let mut progress = Progress::of_many();
        let mut watch = Job::watch(progress.lines());
        let asked = (budget, job.arguments.batch);
        sweep::budget(&task, job.sweep, asked, job.place(), &mut progress, &mut watch)
    }
}

/// Formats the sparsities that meet a budget.
fn kept(found: &Budgeted, batch: usize) -> String {
    let Budgeted { budget_us, dense_us, predicted_us, measured_us, predicted_error, weights } =
        found;
    format!(
        "{}\n\na batch of {batch}: {measured_us:.0} us measured, {predicted_us:.0} us predicted, {budget_us:.0} us allowed, \
         {dense_us:.0} us dense; sum of output errors {predicted_error:.2e}; weights that \
         are not listed stay dense",
        table(weights)
    )
}

fn table(candidates: &[TimedCandidate]) -> String {
    let heading = ["weight", "pattern", "sparsity", "output error", "dense us", "packed us"];
    let mut cells = vec![heading.map(String::from).to_vec()];
    cells.extend(candidates.iter().map(|TimedCandidate { candidate, time }| {
        let us = |us: fn(&LayerTime) -> f64| {
            time.as_ref().map_or("-".into(), |time| format!("{:.1}", us(time)))
        };
        let sparsity = format!("{:.2} %", 100.0 * candidate.sparsity);
        let error = format!("{:.2e}", candidate.error);
        let times = [us(|time| time.dense_us), us(|time| time.sparse_us)];
        [candidate.name.clone(), candidate.pattern.clone(), sparsity, error]
            .into_iter()
            .chain(times)
            .collect()
    }));
    output::table(&cells)
}
