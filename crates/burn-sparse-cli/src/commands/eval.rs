use std::path::PathBuf;
use std::time::Instant;

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::measure::{LayerReport, layers};
use burn_sparse_models::huggingface::Folder;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::run::{Results, RunFolder};
use burn_sparse_run::{Metric, Task, TaskVisitor, with_task};
use clap::Args;
use serde::Serialize;

use super::in_f32::InF32;
use super::pretrained::PretrainedArguments;
use super::{Failure, checkpoint, pretrained};
use crate::args::BadUsage;
use crate::costs;
use crate::device::Compute;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct EvalArguments {
    /// A checkpoint, the folder of a finished run, or a Hugging Face folder or name, dense or packed.
    pub(crate) checkpoint: PathBuf,
    /// Folder of the data sets [default: the user's cache, into which MNIST, CIFAR-10, Multi30k and Tiny Shakespeare are
    /// downloaded].
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compute: Compute,
    #[command(flatten)]
    pub(crate) pretrained: PretrainedArguments,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn eval(arguments: &EvalArguments) -> Result<(), Failure> {
    let device = arguments.compute.device()?;
    costs::install()?;
    if let Some(folder) = pretrained::folder(&arguments.checkpoint)? {
        return evaluate_folder(&folder, arguments, &device);
    }
    if let Some(option) = arguments.pretrained.given() {
        // The options are those of a model's folder, of which a run has its own.
        if let Some(folder) = pretrained::folder(&RunFolder::new(&arguments.checkpoint).model())? {
            return evaluate_folder(&folder, arguments, &device);
        }
        let path = arguments.checkpoint.display();
        let reason = format!("{path} has no config.json: {option} is for Hugging Face folders");
        return Err(reason.into());
    }
    let (path, mut checkpoint) = checkpoint::read(&arguments.checkpoint)?;
    if let Some(values) = arguments.compute.values.filter(|_| device == Device::flex()) {
        checkpoint = checkpoint.with_values(values)?;
    }
    let Some(recipe) = Recipe::of(&checkpoint)? else {
        return Err(format!("{} carries no recipe, so its task is unknown", path.display()).into());
    };
    // Another file beside a folder `model` has nothing to do with it.
    let run = RunFolder::of(&path);
    let recipe = if run.checkpoint() == path { run.with_own_model(recipe) } else { recipe };
    let started = Instant::now();
    let evaluate = Evaluate { checkpoint: &checkpoint, arguments, device, seed: recipe.seed };
    let (metric, layers) = with_task(&recipe, evaluate)??;
    let report = Report {
        task: &recipe.task,
        device: &arguments.compute.device,
        metric,
        dense_metric: Results::of(&checkpoint).and_then(|results| results.dense_metric),
        sparsity: checkpoint.sparsity(),
        pattern: checkpoint.patterns(),
        seconds: started.elapsed().as_secs_f64(),
        checkpoint: path.display().to_string(),
        in_f32: InF32::of(&checkpoint),
        layers,
    };
    print(&report, arguments.json)
}

fn evaluate_folder(
    folder: &Folder,
    arguments: &EvalArguments,
    device: &Device,
) -> Result<(), Failure> {
    if arguments.compute.values.is_some() && *device == Device::flex() {
        let reason = "--values: a folder is evaluated in the type that it stores on the CPU";
        return Err(BadUsage(reason.into()).into());
    }
    let data_dir = arguments.data_dir.as_deref();
    let evaluated = pretrained::evaluate(folder, &arguments.pretrained, data_dir, device)?;
    let report = Report {
        task: evaluated.task.name(),
        device: &arguments.compute.device,
        metric: evaluated.metric,
        dense_metric: evaluated.dense_metric,
        sparsity: evaluated.sparsity,
        pattern: evaluated.pattern,
        seconds: evaluated.seconds,
        checkpoint: folder.path().display().to_string(),
        in_f32: evaluated.in_f32,
        layers: evaluated.layers,
    };
    print(&report, arguments.json)
}

fn print(report: &Report<'_>, json: bool) -> Result<(), Failure> {
    if json {
        return output::json(report);
    }
    let sparsity = match report.pattern.as_str() {
        "" => "not pruned".to_string(),
        pattern => format!("at {:.2} % sparsity ({pattern})", 100.0 * report.sparsity),
    };
    let in_f32 = report.in_f32.as_ref().map_or(String::new(), InF32::line);
    let seconds = output::duration(report.seconds);
    let mut text = format!("{} {sparsity}, in {seconds}\n{in_f32}", report.metric);
    if !report.layers.is_empty() {
        text += &format!("\n{}", output::layers(&report.layers));
    }
    output::text(text.trim_end())
}

#[derive(Serialize)]
struct Report<'a> {
    task: &'a str,
    device: &'a str,
    metric: Metric,
    /// Metric of the dense model at the end of training, or as it was pretrained; `None` without one.
    dense_metric: Option<Metric>,
    sparsity: f64,
    pattern: String,
    seconds: f64,
    checkpoint: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    in_f32: Option<InF32>,
    layers: Vec<LayerReport>,
}

struct Evaluate<'a> {
    checkpoint: &'a Checkpoint,
    arguments: &'a EvalArguments,
    device: Device,
    seed: u64,
}

impl TaskVisitor for Evaluate<'_> {
    type Output = Result<(Metric, Vec<LayerReport>), Failure>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        // Loads the model first: a checkpoint that does not fit needs no data.
        let model = self.checkpoint.load(task.model(&self.device))?;
        let data = task.load_test(self.arguments.data_dir.as_deref(), self.seed)?;
        let metric = task.evaluate(&data, &model, &self.device)?.finite()?;
        let layers = layers(&model, self.checkpoint, || {
            task.outputs(&data, &model, task.compared(&data), &self.device);
        });
        Ok((metric, layers))
    }
}
