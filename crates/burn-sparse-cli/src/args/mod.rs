//! Argument types that several commands share.

mod values;

use burn_sparse::checkpoint::{FloatType, ValueType};
use burn_sparse::pattern::format::Integers;
use clap::ValueEnum;

pub(crate) use values::{
    Patterns, batch, budget, distribution, latency, method, patterns, shape, speedup,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// Stores only the kept values of pruned weights.
    Packed,
    /// Plain weights with zeros.
    Dense,
    /// PyTorch's names; pruned matrices in the layout of compressed-tensors: bit mask and values.
    SparseBitmask,
}

/// Type of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Values {
    /// Single precision.
    #[default]
    F32,
    /// Half precision.
    F16,
    /// bfloat16.
    Bf16,
    /// 8 bits for weights and for the inputs that they are multiplied by. CPU only.
    W8a8,
    /// 4 bits for weights of linear layers, 8 for convolutions, embeddings and inputs. CPU only.
    W4a8,
}

impl Values {
    /// Returns the kind of integers; `None` for floats.
    pub(crate) fn integers(self) -> Option<Integers> {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => None,
            Self::W8a8 => Some(Integers::Int8),
            Self::W4a8 => Some(Integers::Int4),
        }
    }

    /// Returns the name as spelled in arguments.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::W8a8 => "w8a8",
            Self::W4a8 => "w4a8",
        }
    }
}

impl From<Values> for ValueType {
    fn from(values: Values) -> Self {
        match values {
            Values::F32 => FloatType::F32.into(),
            Values::F16 => FloatType::F16.into(),
            Values::Bf16 => FloatType::BF16.into(),
            Values::W8a8 => Self::Int8,
            Values::W4a8 => Self::Int4,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Layout {
    /// Burn's names and orientation: `Linear` as [in, out].
    Burn,
    /// PyTorch's names and orientation: `Linear` as [out, in].
    Pytorch,
    /// A Hugging Face folder: its configuration and tokenizer, and its names and shards or a packed checkpoint.
    Huggingface,
}

/// Bad usage that clap cannot detect: reported like its own errors, with status 2.
#[derive(Debug)]
pub(crate) struct BadUsage(pub(crate) String);

impl std::fmt::Display for BadUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadUsage {}
