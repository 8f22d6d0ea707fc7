use std::path::{Path, PathBuf};

use burn::tensor::Device;
use burn_sparse_models::run::RunError;
use burn_sparse_models::sweep::{self, Method, Spread, Sweep, SweepReport};
use burn_sparse_models::{Metric, Task, TaskVisitor, with_task};
use clap::Args;
use serde::Serialize;

use super::{Failure, recipe, sensitivity};
use crate::args::{Patterns, method, patterns};
use crate::device::device;
use crate::output::{self, Progress};

#[derive(Debug, Args)]
pub(crate) struct SweepArguments {
    /// The recipe; without one, the built-in quickstart.
    pub(crate) recipe: Option<PathBuf>,
    /// Patterns, separated by commas: 'unstructured,shfl-bw(vector=32),balanced(block=32)'.
    #[arg(long, value_parser = patterns)]
    pub(crate) patterns: Patterns,
    /// Shares of zeros, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "0.75,0.9")]
    pub(crate) sparsities: Vec<f64>,
    /// Ways of training, each a name and keys that differ from the recipe:
    /// 'one-shot:prune.end=0 epochs;prune.decay=0'. May be given more than once.
    #[arg(long = "method", value_name = "NAME:KEY=VALUE;...", value_parser = method)]
    pub(crate) methods: Vec<Method>,
    /// How many seeds, counted from the recipe's own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub(crate) seeds: u64,
    /// Train nothing but the dense model of the first seed: prune each weight of it alone, at once, and measure.
    #[arg(long, conflicts_with = "methods")]
    pub(crate) sensitivity: bool,
    /// With --sensitivity: write the recipe with a table for every weight, at the highest sparsity that alone
    /// loses no more than --allow.
    #[arg(long, value_name = "FILE", requires = "sensitivity")]
    pub(crate) write: Option<PathBuf>,
    /// What a weight may lose of the metric, in its own unit: 0.002 of accuracy are 0.2 points; BLEU counts to 100.
    #[arg(long, default_value_t = 0.002, requires = "write")]
    pub(crate) allow: f64,
    /// Where to compute: flex (the CPU), or, in builds with their feature, cuda:N, vulkan:N, wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Where data sets are, instead of their caches.
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The folder of this sweep [default: sweeps/NAME]; what is finished there is not trained again.
    #[arg(long)]
    pub(crate) run_dir: Option<PathBuf>,
    /// Set a key of the recipe, as in train.prune_epochs=3.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn sweep(arguments: &SweepArguments) -> Result<(), Failure> {
    let recipe = recipe(arguments.recipe.as_deref(), &arguments.sets)?;
    if recipe.prune.is_empty() {
        return Err("the recipe has no [[prune]] table: there is nothing to vary".into());
    }
    let device = device(&arguments.device, None)?;
    let as_it_is = Method { name: String::new(), sets: Vec::new() };
    let sweep = Sweep {
        methods: match arguments.methods.is_empty() {
            true => vec![as_it_is],
            false => arguments.methods.clone(),
        },
        patterns: arguments.patterns.0.clone(),
        sparsities: arguments.sparsities.clone(),
        seeds: arguments.seeds,
        recipe,
    };
    let folder = arguments.run_dir.clone().unwrap_or_else(|| {
        let name = arguments.recipe.as_deref().and_then(Path::file_stem);
        PathBuf::from("sweeps").join(name.unwrap_or("quickstart".as_ref()))
    });
    if arguments.sensitivity {
        return sensitivity::sensitivity(&sweep, arguments, &folder, &device);
    }
    let task = sweep.recipe.task.clone();
    let run = Run { sweep: &sweep, arguments, folder: &folder, device: &device };
    let Some(report) = with_task(&task, run)?? else {
        return Err("interrupted; the same command goes on".into());
    };
    let report = Report { device: &arguments.device, report: &report };
    let json = serde_json::to_vec_pretty(&report)?;
    burn_sparse::checkpoint::write_atomically(&folder.join("sweep.json"), &json)?;
    if arguments.json {
        return output::json(&report);
    }
    output::text(&format!("{}\n\n{}", table(report.report), folder.join("sweep.json").display()))
}

/// The object that `--json` prints and `sweep.json` holds.
#[derive(Serialize)]
struct Report<'a> {
    device: &'a str,
    #[serde(flatten)]
    report: &'a SweepReport,
}

struct Run<'a> {
    sweep: &'a Sweep,
    arguments: &'a SweepArguments,
    folder: &'a Path,
    device: &'a Device,
}

impl TaskVisitor for Run<'_> {
    type Output = Result<Option<SweepReport>, RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let mut progress = Progress::of_many();
        let print = progress.lines();
        let mut done = |run: &str, metric: &Metric| {
            print(&format!("{run}: {metric}"));
        };
        let data_dir = self.arguments.data_dir.as_deref();
        let (sweep, folder, device) = (self.sweep, self.folder, self.device);
        sweep::sweep(&task, sweep, data_dir, folder, device, &mut progress, &mut done)
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
