//! The command line: one sub-command per file of [`commands`](crate::commands).

use clap::{Parser, Subcommand};

use crate::commands::{
    BenchArguments, EmbedArguments, EvalArguments, ExportArguments, GenerateArguments,
    ImportArguments, InspectArguments, PlanArguments, PruneArguments, ReportArguments,
    SweepArguments, TrainArguments,
};

/// Sparsity for Burn, from training to deployment: prune by a recipe, fine-tune under masks, export verified
/// checkpoints, and run them on sparse kernels.
#[derive(Debug, Parser)]
#[command(name = "burn-sparse", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train the task of a recipe, dense and then under masks.
    Train(TrainArguments),
    /// Print the plan of a recipe: pattern, sparsity and schedule of every weight.
    Plan(PlanArguments),
    /// Evaluate a checkpoint, and name the kernel that ran for every layer.
    Eval(EvalArguments),
    /// Embed texts with a pretrained sentence embedder, dense or packed.
    Embed(EmbedArguments),
    /// Continue a text with a pretrained language model, dense or packed.
    Generate(GenerateArguments),
    /// Prune the weights of a safetensors file, or of a Hugging Face folder, in one shot, without training.
    Prune(PruneArguments),
    /// Convert a checkpoint to another format.
    Export(ExportArguments),
    /// Convert weights in PyTorch's layout to a checkpoint of a task.
    Import(ImportArguments),
    /// Show the contents of a checkpoint.
    Inspect(InspectArguments),
    /// Benchmark layers, dense and sparse alternating in one run.
    Bench(BenchArguments),
    /// Train a recipe over patterns, sparsities, methods and seeds, from one dense checkpoint for each seed.
    Sweep(SweepArguments),
    /// Write the results of a run or a sweep as one HTML file, and print its table as Markdown.
    Report(ReportArguments),
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
