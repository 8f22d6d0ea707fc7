//! What the command line may say.

mod values;

use burn_sparse::checkpoint::FloatType;
use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use values::{Patterns, batch, budget, distribution, method, patterns, shape};

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
