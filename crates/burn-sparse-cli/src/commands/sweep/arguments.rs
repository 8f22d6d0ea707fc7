use std::path::PathBuf;
use std::time::Duration;

use burn_sparse_run::sweep::{Method, Shard};
use clap::Args;

use crate::args::{Patterns, batch, latency, method, patterns, speedup};
use crate::recipes;

#[derive(Debug, Args)]
#[command(after_help = recipes::list())]
pub(crate) struct SweepArguments {
    /// The recipe: a file, a built-in name such as mnist-mlp-shfl-bw, or a checkpoint that carries one. Default: quickstart.
    pub(crate) recipe: Option<PathBuf>,
    /// Patterns, separated by commas: 'unstructured,shfl-bw(vector=32),balanced(block=32)'.
    #[arg(long, value_parser = patterns)]
    pub(crate) patterns: Patterns,
    /// Sparsities, separated by commas: shares of weights set to zero.
    #[arg(long, value_delimiter = ',', default_value = "0.75,0.9")]
    pub(crate) sparsities: Vec<f64>,
    /// Methods, each a name and the keys that differ from the recipe:
    /// 'one-shot:prune.end=0 epochs;prune.decay=0'. May be given more than once.
    #[arg(long = "method", value_name = "NAME:KEY=VALUE;...", value_parser = method)]
    pub(crate) methods: Vec<Method>,
    /// Number of seeds, counted from the recipe's.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000), conflicts_with = "per_weight")]
    pub(crate) seeds: u64,
    /// Train a part of the runs, every n-th from the i-th on, as in 2/3. Shards share a folder, or have separate folders
    /// that are merged into one; the last to finish, or the sweep without this option, writes the table of all runs.
    #[arg(long, value_name = "I/N", default_value_t = Shard::WHOLE, conflicts_with = "per_weight")]
    pub(crate) shard: Shard,
    /// Measure the sensitivity of each weight: prune it alone, in one shot, in the dense model of the first seed.
    #[arg(long, group = "per_weight", conflicts_with = "methods")]
    pub(crate) sensitivity: bool,
    /// With --sensitivity, --budget or --speedup: write a recipe with a table for every weight.
    #[arg(long, value_name = "FILE", requires = "per_weight")]
    pub(crate) write: Option<PathBuf>,
    /// With --sensitivity --write: largest loss of the metric that a weight may cause, in the metric's unit: 0.002 of accuracy
    /// is 0.2 points. Each weight gets the highest sparsity at which it loses no more.
    #[arg(long, default_value_t = 0.002, requires_all = ["sensitivity", "write"], conflicts_with_all = ["budget", "speedup"])]
    pub(crate) allow: f64,
    /// Choose a sparsity for each weight so that the model takes no longer than this for a batch, as in 800us or 4ms: weights
    /// that change its outputs least are pruned most.
    #[arg(long, value_name = "TIME", value_parser = latency, group = "per_weight", conflicts_with = "methods")]
    pub(crate) budget: Option<Duration>,
    /// As --budget, but as a multiple of the dense model's speed, as in 2.0.
    #[arg(long, value_name = "TIMES", value_parser = speedup, group = "per_weight", conflicts_with = "methods")]
    pub(crate) speedup: Option<f64>,
    /// Number of samples of the batch that --budget or --speedup is for.
    #[arg(long, default_value_t = 1, value_parser = batch, conflicts_with = "sensitivity", requires = "per_weight")]
    pub(crate) batch: usize,
    /// Device: flex or cpu, or, in builds with that feature, cuda:N, vulkan:N or wgpu:N.
    #[arg(long, default_value = "flex")]
    pub(crate) device: String,
    /// Folder of the data sets [default: the user's cache, into which MNIST, CIFAR-10, Multi30k and Tiny Shakespeare are
    /// downloaded].
    #[arg(long, env = "BURN_SPARSE_DATA")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Folder of the sweep [default: sweeps/NAME]; finished runs are not trained again.
    #[arg(long)]
    pub(crate) run_dir: Option<PathBuf>,
    /// Set a key of the recipe, as in train.prune_epochs=3.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) sets: Vec<String>,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}
