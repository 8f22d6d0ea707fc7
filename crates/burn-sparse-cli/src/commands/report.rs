use std::path::PathBuf;

use burn_sparse::checkpoint::write_atomically;
use burn_sparse_run::report::{Measured, Row, find, markdown, measure, page, rows};
use clap::Args;
use serde::Serialize;

use super::Failure;
use crate::costs;
use crate::device::device;
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
    /// Device: flex (the CPU), or, in builds with that feature, cuda:N, vulkan:N or wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Folder of the data sets [default: their caches, downloaded if missing].
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn report(arguments: &ReportArguments) -> Result<(), Failure> {
    let device = device(&arguments.device, None)?;
    costs::install()?;
    let found = find(&arguments.folder)?;
    let (mut rows, mut notes) = (rows(&found), Vec::new());
    let batches: Vec<usize> = arguments.batch.iter().copied().filter(|&batch| batch > 0).collect();
    for row in rows.iter_mut().filter(|_| !batches.is_empty()) {
        let name = if row.name.is_empty() { &row.pattern } else { &row.name };
        output::note(&format!("timing {name}"));
        let checkpoint = &found.runs[row.first].checkpoint;
        match measure(checkpoint, arguments.data_dir.as_deref(), &batches, &device) {
            Ok(measured) => row.measured = Some(measured),
            // A report without speed is still useful; the other rows would fail likewise.
            Err(error) => {
                notes.push(format!("No times: {error}"));
                output::note(&notes[0]);
                break;
            }
        }
    }
    let out = arguments.out.clone().unwrap_or_else(|| arguments.folder.join("report.html"));
    write_atomically(&out, page(&found, &rows, &notes).as_bytes())
        .map_err(|error| format!("cannot write {}: {error}", out.display()))?;
    let out = out.display().to_string();
    if arguments.json {
        let rows = rows.iter().map(Line::of).collect();
        return output::json(&Report { report: out, device: &arguments.device, rows });
    }
    output::text(&format!("{}\n{out}", markdown(&rows)))
}

#[derive(Serialize)]
struct Report<'a> {
    report: String,
    device: &'a str,
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
            measured: row.measured.as_ref(),
        }
    }
}
