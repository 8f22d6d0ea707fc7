use std::path::{Path, PathBuf};

use burn::tensor::Device;
use burn_sparse::checkpoint::Checkpoint;
use burn_sparse::distributed::Ranks;
use burn_sparse_run::recipe::Recipe;
use burn_sparse_run::run::{
    self, Begin, DataSource, Outcome, RunError, RunFolder, TrainOptions, Trained,
};
use burn_sparse_run::{Metric, Task, TaskVisitor, with_task};
use clap::Args;
use serde::Serialize;

use super::{Failure, checkpoint, recipe};
use crate::costs;
use crate::device::device;
use crate::output::{self, Progress};
use crate::ranks::Launched;
use crate::recipes;

#[derive(Debug, Args)]
#[command(after_help = recipes::list())]
pub(crate) struct TrainArguments {
    /// The recipe: a file, a built-in name such as mnist-mlp-shfl-bw, or a checkpoint that carries one. Default: quickstart.
    pub(crate) recipe: Option<PathBuf>,
    /// Start from the parameters of a checkpoint, packed or dense, or of a finished run.
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "resume")]
    pub(crate) from: Option<PathBuf>,
    /// Device: flex or cpu, or, in builds with that feature, cuda:N, vulkan:N or wgpu:N. Several, separated by
    /// commas, split every batch.
    #[arg(long, visible_alias = "devices", default_value = "flex", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Folder of the data sets [default: the user's cache, into which MNIST, CIFAR-10, Multi30k and Tiny Shakespeare are
    /// downloaded].
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Folder of the run [default: runs/NAME, or runs/NAME-2 and so on if it exists].
    #[arg(long)]
    pub(crate) run_dir: Option<PathBuf>,
    /// Resume the run in --run-dir.
    #[arg(long, requires = "run_dir")]
    pub(crate) resume: bool,
    /// Set a key of the recipe, as in prune.sparsity=0.9 or train.batch_size=64.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn train(arguments: &TrainArguments) -> Result<(), Failure> {
    let launched = Launched::join()?;
    let outcome = train_on(launched.ranks(), arguments);
    launched.leave(outcome)
}

fn train_on(ranks: &Ranks, arguments: &TrainArguments) -> Result<(), Failure> {
    let given = ranks.agree(Given::read(arguments))?;
    costs::install_on(ranks)?;
    if ranks.rank() == 0 && !arguments.json {
        output::note(&format!("run in {}", given.folder.path().display()));
    }
    let run = Run { given: &given, arguments, ranks };
    let outcome = with_task(&given.recipe, run)??;
    let folder = &given.folder;
    if let Outcome::Interrupted = outcome {
        return Err(format!("interrupted; go on with: {}", again(ranks, arguments, folder)).into());
    }
    ranks.lead(|| {
        if let Outcome::Trained(trained) = &outcome {
            report(&given, arguments, trained)?;
        }
        Ok::<_, Failure>(Vec::new())
    })?;
    Ok(())
}

fn report(given: &Given, arguments: &TrainArguments, trained: &Trained) -> Result<(), Failure> {
    let report = Report::new(&given.recipe, arguments, trained);
    given.folder.write_results(&serde_json::to_vec_pretty(&report)?)?;
    if arguments.json {
        output::json(&report)
    } else {
        print(&given.recipe, arguments, trained, &given.folder)
    }
}

/// Inputs that the arguments name.
struct Given {
    recipe: Recipe,
    devices: Vec<Device>,
    folder: RunFolder,
    /// Checkpoint to start from.
    from: Option<Checkpoint>,
}

impl Given {
    fn read(arguments: &TrainArguments) -> Result<Self, Failure> {
        let recipe = recipe(arguments.recipe.as_deref(), &arguments.sets)?;
        let devices: Result<Vec<Device>, String> =
            arguments.device.iter().map(|name| device(name, None)).collect();
        let folder = match &arguments.run_dir {
            Some(folder) => folder.clone(),
            None => new_folder(arguments.recipe.as_deref()),
        };
        let from = arguments.from.as_deref().map(checkpoint::read).transpose()?;
        let (folder, from) = (RunFolder::new(folder), from.map(|(_, checkpoint)| checkpoint));
        Ok(Self { recipe, devices: devices?, folder, from })
    }
}

/// Returns the command line that resumes the run.
fn again(ranks: &Ranks, arguments: &TrainArguments, folder: &RunFolder) -> String {
    let mut words = Vec::new();
    if ranks.size() > 1 {
        words.extend(["mpirun".to_string(), "-n".into(), ranks.size().to_string()]);
    }
    words.extend(["burn-sparse".to_string(), "train".to_string()]);
    words.extend(arguments.recipe.iter().map(|recipe| recipe.display().to_string()));
    for set in &arguments.sets {
        words.extend(["--set".into(), set.clone()]);
    }
    if let Some(data_dir) = &arguments.data_dir {
        words.extend(["--data-dir".into(), data_dir.display().to_string()]);
    }
    if arguments.json {
        words.push("--json".into());
    }
    words.extend(["--device".into(), arguments.device.join(",")]);
    words.extend(["--run-dir".into(), folder.path().display().to_string(), "--resume".into()]);
    words.iter().map(|word| output::quoted(word)).collect::<Vec<_>>().join(" ")
}

struct Run<'a> {
    given: &'a Given,
    arguments: &'a TrainArguments,
    ranks: &'a Ranks,
}

impl TaskVisitor for Run<'_> {
    type Output = Result<Outcome, RunError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let source = DataSource::new(self.arguments.data_dir.as_deref());
        let begin = match &self.given.from {
            Some(checkpoint) => Begin::From(checkpoint),
            None if self.arguments.resume => Begin::Resume,
            None => Begin::Fresh,
        };
        let options = TrainOptions {
            task: &task,
            recipe: &self.given.recipe,
            source: &source,
            folder: &self.given.folder,
            begin,
            devices: &self.given.devices,
            ranks: self.ranks,
        };
        run::train(&options, &mut Progress::of_rank(self.ranks.rank()))
    }
}

/// Returns `runs/NAME`, or the first of `runs/NAME-2`, `runs/NAME-3`, … that does not exist.
fn new_folder(recipe: Option<&Path>) -> PathBuf {
    let name = recipe.and_then(Path::file_stem).unwrap_or(recipes::DEFAULT.as_ref());
    let name = name.to_string_lossy();
    let candidate = |number: usize| match number {
        1 => PathBuf::from("runs").join(&*name),
        _ => PathBuf::from("runs").join(format!("{name}-{number}")),
    };
    let mut numbers = 1..;
    let free = numbers.find(|&number| !candidate(number).exists());
    candidate(free.unwrap_or(1))
}

/// Output of `--json`, and content of `results.json`.
#[derive(Serialize)]
struct Report<'a> {
    task: &'a str,
    device: String,
    metric: &'a Metric,
    dense_metric: &'a Option<Metric>,
    sparsity: f64,
    pattern: &'a str,
    seconds: f64,
    checkpoint: String,
    layers: &'a [burn_sparse::measure::LayerReport],
}

impl<'a> Report<'a> {
    fn new(recipe: &'a Recipe, arguments: &'a TrainArguments, trained: &'a Trained) -> Self {
        Self {
            task: &recipe.task,
            device: arguments.device.join(","),
            metric: &trained.metric,
            dense_metric: &trained.dense_metric,
            sparsity: trained.sparsity,
            pattern: &trained.pattern,
            seconds: trained.seconds,
            checkpoint: trained.checkpoint.display().to_string(),
            layers: &trained.layers,
        }
    }
}

fn print(
    recipe: &Recipe,
    arguments: &TrainArguments,
    trained: &Trained,
    folder: &RunFolder,
) -> Result<(), Failure> {
    let metric = &trained.metric;
    let dense = trained.dense_metric.as_ref();
    let written =
        |metric: &Metric| format!(", dense {}", Metric::written(&metric.name, metric.value));
    let dense = dense.map_or(String::new(), written);
    let is_pruned = !trained.pattern.is_empty();
    let pruned = match is_pruned {
        true => format!("at {:.2} % sparsity ({})", 100.0 * trained.sparsity, trained.pattern),
        false => "not pruned".into(),
    };
    let path = |suffix: &str| output::quoted(&format!("{}{suffix}", folder.path().display()));
    let run = path("");
    let data = arguments.data_dir.as_ref();
    let data = data.map_or(String::new(), |data| {
        format!(" --data-dir {}", output::quoted(&data.display().to_string()))
    });
    let mut next =
        format!("burn-sparse eval  {run}{data}       the same in a new process, kernel by kernel");
    if is_pruned {
        next += &format!("\n  burn-sparse bench {run}       dense and sparse time of every layer");
    }
    if recipe.model.is_some() {
        let out = path("-8");
        next += &format!(
            "\n  burn-sparse export {run} --layout huggingface --format packed --values w8a8 --out {out}"
        );
    } else if is_pruned {
        let recipe = path("/recipe.toml");
        next += &format!("\n  burn-sparse train {recipe} --set prune.sparsity=0.9{data}");
    }
    output::text(&format!(
        "\n{metric} {pruned}{dense}, in {}\n\n{}\n\n\
         checkpoint  {}\n\n\
         try next:\n  \
         {next}\n  \
         burn-sparse train mnist-mlp-shfl-bw       (downloads MNIST, or --data-dir)\n\
         (from a clone: `cargo run --release --` in place of `burn-sparse`)",
        output::duration(trained.seconds),
        output::layers(&trained.layers),
        trained.checkpoint.display(),
    ))
}
