use std::collections::BTreeMap;
use std::path::PathBuf;

use burn::tensor::Device;
use burn_sparse::checkpoint::{Checkpoint, CheckpointError, write_atomically};
use burn_sparse_run::report::{
    Found, Measured, Row, evaluate, find, markdown, measure, page, rows,
};
use clap::Args;
use serde::Serialize;

use super::Failure;
use crate::args::Values;
use crate::costs;
use crate::device::Compute;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// Folder of a finished run, or of a sweep.
    pub(crate) folder: PathBuf,
    /// The HTML file [default: report.html in the folder].
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Batch sizes to time models with, separated by commas; 0 times nothing.
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    pub(crate) batch: Vec<usize>,
    #[command(flatten)]
    pub(crate) compute: Compute,
    /// Folder of the data sets [default: the user's cache, into which MNIST, CIFAR-10, Multi30k and Tiny Shakespeare are
    /// downloaded].
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let device = arguments.compute.device()?;
    // A GPU computes in the type; the CPU stores values in it.
    let values = arguments.compute.values.filter(|_| device == Device::flex());
    costs::install()?;
    if let Some(out) = &arguments.out {
        output::writable(out)?;
    }
    let found = find(&arguments.folder)?;
    let tasks: BTreeMap<&str, &str> =
        found.runs.iter().map(|run| (run.task.as_str(), run.name.as_str())).collect();
    if tasks.len() > 1 {
        let tasks: Vec<_> = tasks.iter().map(|(task, name)| format!("{name} is {task}")).collect();
        let (folder, tasks) = (arguments.folder.display(), tasks.join(", "));
        return Err(format!("{folder} holds runs of several tasks: {tasks}; report on one").into());
    }
    let (mut rows, mut notes) = (rows(&found), Vec::new());
    if let Err(reason) = measure_all(arguments, values, &device, &found, &mut rows) {
        output::note(&reason);
        notes.push(reason);
    }
    let out = arguments.out.clone().unwrap_or_else(|| arguments.folder.join("report.html"));
    let name = values.map(Values::name);
    write_atomically(&out, page(&found, &rows, name, &notes).as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    let out = out.display().to_string();
    if arguments.json {
        let rows = rows.iter().map(Line::of).collect();
        let device = &arguments.compute.device;
        return output::json(&Report { report: out, device, values: name, rows });
    }
    output::text(&format!("{}\n{out}", markdown(&rows, name)))
}

/// Measures all rows, and evaluates all runs with values of another type. Stops at the first error, which the others would also
/// hit: a report without speed is still useful.
fn measure_all(
    arguments: &ReportArguments,
    values: Option<Values>,
    device: &Device,
    found: &Found,
    rows: &mut [Row],
) -> Result<(), String> {
    let batches: Vec<usize> = arguments.batch.iter().copied().filter(|&batch| batch > 0).collect();
    let data_dir = arguments.data_dir.as_deref();
    let stored = |run: usize| -> Result<Checkpoint, CheckpointError> {
        let checkpoint = found.runs[run].checkpoint.clone();
        match values {
            Some(values) => checkpoint.with_values(values),
            None => Ok(checkpoint),
        }
    };
    for row in rows {
        let name = if row.name.is_empty() { &row.pattern } else { &row.name };
        if let Some(values) = values {
            output::note(&format!("evaluating {name} in {}", values.name()));
            for &run in &row.runs {
                let fail = |error: &dyn std::fmt::Display| {
                    format!("Not evaluated in {}: {error}", values.name())
                };
                let checkpoint = stored(run).map_err(|error| fail(&error))?;
                let metric = evaluate(&checkpoint, &found.runs[run].recipe, data_dir, device);
                row.rounded.push(metric.map_err(|error| fail(&error))?.value);
            }
        }
        if !batches.is_empty() {
            output::note(&format!("timing {name}"));
            let fail = |error: &dyn std::fmt::Display| format!("No times: {error}");
            let checkpoint = stored(row.runs[0]).map_err(|error| fail(&error))?;
            let recipe = &found.runs[row.runs[0]].recipe;
            let measured = measure(&checkpoint, recipe, data_dir, &batches, device);
            row.measured = Some(measured.map_err(|error| fail(&error))?);
        }
    }
    Ok(())
}

#[derive(Serialize)]
struct Report<'a> {
    report: String,
    device: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<&'a str>,
    rows: Vec<Line<'a>>,
}

#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    pattern: &'a str,
    method: &'a str,
    sparsity: f64,
    metric: &'a str,
    mean: f64,
    values: &'a [f64],
    #[serde(skip_serializing_if = "<[f64]>::is_empty")]
    rounded: &'a [f64],
    #[serde(flatten)]
    measured: Option<&'a Measured>,
}

impl<'a> Line<'a> {
    fn of(row: &'a Row) -> Self {
        Self {
            name: &row.name,
            pattern: &row.pattern,
            method: &row.method,
            sparsity: row.sparsity,
            metric: &row.metric,
            mean: row.mean(),
            values: &row.values,
            rounded: &row.rounded,
            measured: row.measured.as_ref(),
        }
    }
}
