//! The command line: one sub-command per file of [`commands`](crate::commands).

use clap::{Parser, Subcommand};

use crate::commands::{
    BenchArguments, EvalArguments, ExportArguments, ImportArguments, InspectArguments,
    PlanArguments, PruneArguments, ReportArguments, SweepArguments, TrainArguments,
};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
