//! What the command line may say.

mod values;

use std::path::PathBuf;
use std::time::Duration;

use burn_sparse::checkpoint::{FloatType, Rename};
use burn_sparse::pattern::{Distribution, Pattern};
use burn_sparse_models::sweep::Method;
use clap::{Args, Parser, Subcommand, ValueEnum};

use values::{Patterns, batch, budget, distribution, method, patterns, shape};

/// Training-time sparsity for Burn: recipe, plan, masked fine-tuning, verified checkpoint, sparse
/// kernels that prove they ran.
#[derive(Debug, Parser)]
#[command(name = "burn-sparse", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a recipe's task, dense and then under its masks.
    Train(TrainArguments),
    /// Print what a recipe will do to its model, before anything trains.
    Plan(PlanArguments),
    /// Measure a checkpoint, and name the kernel of every layer.
    Eval(EvalArguments),
    /// Prune the weights of any safetensors file once, without training.
    Prune(PruneArguments),
    /// Write a checkpoint in another form.
    Export(ExportArguments),
    /// Make a checkpoint of a task from weights in PyTorch's names and orientation.
    Import(ImportArguments),
    /// Show what a checkpoint holds.
    Inspect(InspectArguments),
    /// Time layers, dense and sparse in one run.
    Bench(BenchArguments),
    /// Train a recipe over patterns, sparsities, methods and seeds, from one dense checkpoint each.
    Sweep(SweepArguments),
    /// Write what a run or a sweep found as one HTML file, and print its table as Markdown.
    Report(ReportArguments),
}

#[derive(Debug, Args)]
pub(crate) struct TrainArguments {
    /// The recipe, or a checkpoint that carries one; without either, the built-in quickstart.
    pub(crate) recipe: Option<PathBuf>,
    /// Begin with the parameters of this checkpoint, packed or dense, or of a finished run.
    #[arg(long, value_name = "CHECKPOINT", conflicts_with = "resume")]
    pub(crate) from: Option<PathBuf>,
    /// Where to compute: flex (the CPU), or, in builds with their feature, cuda:N, vulkan:N, wgpu:N. Several,
    /// separated by commas, share every batch.
    #[arg(long, visible_alias = "devices", default_value = "flex", value_delimiter = ',')]
    pub(crate) device: Vec<String>,
    /// Where data sets are, instead of their caches.
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// The folder of this run [default: runs/NAME].
    #[arg(long)]
    pub(crate) run_dir: Option<PathBuf>,
    /// Go on where the run in --run-dir stopped.
    #[arg(long, requires = "run_dir")]
    pub(crate) resume: bool,
    /// Set a key of the recipe, as in prune.sparsity=0.9 or train.batch_size=64.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// The recipe, or a checkpoint that carries one; without either, the built-in quickstart.
    pub(crate) recipe: Option<PathBuf>,
    /// Set a key of the recipe, as in prune.sparsity=0.9.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EvalArguments {
    /// A checkpoint, or the folder of a finished run.
    pub(crate) checkpoint: PathBuf,
    /// Where data sets are, instead of their caches.
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where to compute: flex (the CPU), or, in builds with their feature, cuda:N, vulkan:N, wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// What a GPU computes in; what the CPU, which computes in f32, keeps pruned weights in.
    #[arg(long, value_enum)]
    pub(crate) dtype: Option<Dtype>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Pruned weights keep only what their masks keep.
    Packed,
    /// Plain weights with zeros.
    Dense,
    /// PyTorch's names; pruned matrices as compressed-tensors keeps them: bit mask and values.
    SparseBitmask,
}

/// The type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Dtype {
    /// Single precision.
    #[default]
    F32,
    /// Half precision.
    F16,
    /// The upper half of f32.
    Bf16,
}

impl From<Dtype> for FloatType {
    fn from(dtype: Dtype) -> Self {
        match dtype {
            Dtype::F32 => Self::F32,
            Dtype::F16 => Self::F16,
            Dtype::Bf16 => Self::BF16,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Burn's names and orientation: `Linear` as [in, out].
    Burn,
    /// PyTorch's names and orientation: `Linear` as [out, in].
    Pytorch,
}

#[derive(Debug, Args)]
pub(crate) struct PruneArguments {
    /// A safetensors file.
    pub(crate) weights: PathBuf,
    /// The pattern, as in 'shfl-bw(vector=32)'.
    #[arg(long)]
    pub(crate) pattern: Pattern,
    /// The share of zeros; n-of-m brings its own.
    #[arg(long)]
    pub(crate) sparsity: Option<f64>,
    /// The file to write.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Names of tensors, as globs; all float tensors with 2 or 4 axes without it.
    #[arg(long, value_name = "GLOB", default_value = "*")]
    pub(crate) include: Vec<String>,
    /// How matrices are stored: pytorch as [out, in], burn as [in, out].
    #[arg(long, value_enum, default_value = "pytorch")]
    pub(crate) layout: Layout,
    /// Seeds the search for row orders.
    #[arg(long, default_value_t = 0)]
    pub(crate) seed: u64,
    /// Searches each tensor's row order for this long, as in 30s or 2m.
    #[arg(long, value_name = "TIME", value_parser = budget)]
    pub(crate) budget: Option<Duration>,
    /// How the sparsity is spread over the tensors: uniform, erdos-renyi, erdos-renyi-kernel (by shape)
    /// or global (one threshold).
    #[arg(long, value_name = "NAME", default_value = "uniform", value_parser = distribution)]
    pub(crate) distribution: Distribution,
    /// The highest sparsity that the global distribution gives a tensor.
    #[arg(long, default_value_t = 0.99)]
    pub(crate) cap: f64,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// A checkpoint, or the folder of a finished run.
    pub(crate) checkpoint: PathBuf,
    /// Packed or dense weights, or those of another tool.
    #[arg(long, value_enum)]
    pub(crate) format: ExportFormat,
    /// The names and orientation of dense weights [default: burn].
    #[arg(long, value_enum)]
    pub(crate) layout: Option<Layout>,
    /// The type of the values; two-byte ones halve the file [default: as they are].
    #[arg(long, value_enum)]
    pub(crate) dtype: Option<Dtype>,
    /// The file to write.
    #[arg(long)]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// A safetensors file: dense weights, masked ones, or the sparse-bitmask layout of
    /// compressed-tensors.
    pub(crate) weights: PathBuf,
    /// The task whose model they are of.
    #[arg(long)]
    pub(crate) task: String,
    /// What a module of the file is called in the model, as in net.0=fc1; `NAME=` leaves it out.
    #[arg(long, value_name = "FROM=TO")]
    pub(crate) rename: Vec<Rename>,
    /// The checkpoint to write.
    #[arg(long)]
    pub(crate) out: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct InspectArguments {
    /// A checkpoint, or the folder of a finished run.
    pub(crate) file: PathBuf,
    /// Draw every mask to this SVG file: as stored, in row order, and what each group keeps.
    #[arg(long, value_name = "FILE.svg")]
    pub(crate) plot: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    /// A checkpoint, or the folder of a finished run.
    #[arg(required_unless_present = "shape", conflicts_with = "shape")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// Layers instead of a checkpoint, as ROWSxCOLS (outputs x inputs), separated by commas.
    #[arg(long, value_delimiter = ',', value_parser = shape, requires = "pattern")]
    pub(crate) shape: Vec<(usize, usize)>,
    /// Patterns, separated by commas: 'shfl-bw(vector=32),balanced(block=32)'.
    #[arg(long, value_parser = patterns)]
    pub(crate) pattern: Option<Patterns>,
    /// Shares of zeros, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "0.75")]
    pub(crate) sparsity: Vec<f64>,
    /// Tokens, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,16,128", value_parser = batch)]
    pub(crate) batch: Vec<usize>,
    /// Where to compute: flex (the CPU), or, in builds with their feature, cuda:N, vulkan:N, wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// What a GPU computes in; what the CPU, which computes in f32, keeps pruned weights in.
    #[arg(long, value_enum)]
    pub(crate) dtype: Option<Dtype>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

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

#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The folder of a finished run, or of a sweep: every finished run below it.
    pub(crate) folder: PathBuf,
    /// The HTML file [default: report.html in the folder].
    #[arg(long)]
    pub(crate) out: Option<PathBuf>,
    /// Test samples at a time, separated by commas, to time models with; 0 to time nothing.
    #[arg(long, value_delimiter = ',', default_value = "1,32")]
    pub(crate) batch: Vec<usize>,
    /// Where to compute: flex (the CPU), or, in builds with their feature, cuda:N, vulkan:N, wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Where data sets are, instead of their caches.
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ends the program as clap does for bad usage: a message, and status 2.
pub(crate) fn bad_usage(message: String) -> ! {
    use clap::CommandFactory;
    Arguments::command().error(clap::error::ErrorKind::ArgumentConflict, message).exit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
