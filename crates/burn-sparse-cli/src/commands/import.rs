use std::path::PathBuf;

use burn::tensor::Device;
use burn_sparse::checkpoint::{Checkpoint, CheckpointError, Format, Provenance, Rename};
use burn_sparse_run::recipe::{Recipe, TrainConfig};
use burn_sparse_run::{Task, TaskVisitor, with_task};
use clap::Args;
use serde::Serialize;

use super::Failure;
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// A safetensors file: dense or masked weights, weights that `prune --format packed` wrote, or the sparse-bitmask layout of
    /// compressed-tensors.
    pub(crate) weights: PathBuf,
    /// Task of the model.
    #[arg(long)]
    pub(crate) task: String,
    /// Rename a module of the file, as in net.0=fc1; `NAME=` leaves it out.
    #[arg(long, value_name = "FROM=TO")]
    pub(crate) rename: Vec<Rename>,
    /// The checkpoint to write.
    #[arg(long)]
    pub(crate) out: PathBuf,
    /// Print one JSON object on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn import(arguments: &ImportArguments) -> Result<(), Failure> {
    // A minimal recipe, which records the task in the checkpoint; it trains nothing.
    let train = TrainConfig { prune_epochs: 0, ..TrainConfig::default() };
    let text = "version = 1\ntask = \"\"";
    let recipe: Recipe = text.parse()?;
    let recipe = Recipe { task: arguments.task.clone(), train, ..recipe };
    let checkpoint = with_task(&recipe, Import { arguments })??;
    let checkpoint =
        checkpoint.with_provenance(Provenance::default().with_recipe(recipe.to_toml()));
    checkpoint.write(&arguments.out, Format::Packed)?;
    let (count, packed) = (checkpoint.entries().len(), checkpoint.packed().count());
    let out = arguments.out.display();
    if arguments.json {
        let (out, task) = (out.to_string(), &arguments.task);
        return output::json(&Report { out, task, parameters: count, packed });
    }
    output::text(&format!("{out}: {count} parameters of {}, {packed} packed", arguments.task))
}

#[derive(Serialize)]
struct Report<'a> {
    out: String,
    task: &'a str,
    parameters: usize,
    packed: usize,
}

struct Import<'a> {
    arguments: &'a ImportArguments,
}

impl TaskVisitor for Import<'_> {
    type Output = Result<Checkpoint, CheckpointError>;

    fn visit<T: Task>(self, task: T) -> Self::Output {
        let model = task.model(&Device::flex());
        Checkpoint::import(&self.arguments.weights, &model, &self.arguments.rename)
    }
}
