//! Argument types that several commands share.

mod values;

use burn_sparse::checkpoint::FloatType;
use clap::ValueEnum;

pub(crate) use values::{Patterns, batch, budget, distribution, method, patterns, shape};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Pruned weights keep only what their masks keep.
    Packed,
    /// Plain weights with zeros.
    Dense,
    /// PyTorch's names; pruned matrices as compressed-tensors keeps them: bit mask and values.
    SparseBitmask,
}

/// Number type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Dtype {
    /// Single precision.
    #[default]
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
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
    /// A Hugging Face folder: its names, configuration, tokenizer, and shards.
    Huggingface,
}

/// Bad usage that clap cannot see: reported like its own errors, with status 2.
#[derive(Debug)]
pub(crate) struct BadUsage(pub(crate) String);

impl std::fmt::Display for BadUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUsage {}
