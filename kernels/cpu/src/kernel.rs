use super::simd::Isa;
use super::tokens_major::{decode, gather};
use crate::Layout;

/// A way to multiply by a packed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CpuKernel {
    /// Weights streamed once, vectors along the rows of a group.
    Decode,
    /// Register tiles of gathered columns, vectors along tokens.
    Tiles,
    /// Every row looks up its own inputs of a block, vectors along 16 rows.
    LookUp,
    /// Every row gathers its own inputs, vectors along 16 rows.
    Gather,
    /// A few rows at a time, vectors along tokens.
    Rows,
}

impl CpuKernel {
    /// Returns the kernels that can multiply `n` tokens by a weight of this layout: at least one.
    pub fn candidates(layout: Layout, n: usize, isa: Isa) -> impl Iterator<Item = Self> {
        let few = match layout {
            Layout::Grouped { vector } => decode::fits(vector, n, isa).then_some(Self::Decode),
            Layout::Balanced { .. } => Some(Self::LookUp),
            Layout::Rows => gather::fits(n).then_some(Self::Gather),
        };
        let many = match layout {
            Layout::Grouped { .. } => Self::Tiles,
            Layout::Balanced { .. } | Layout::Rows => Self::Rows,
        };
        few.into_iter().chain([many])
    }

    /// Returns `true` if it takes tiles of tokens, which may be the pixels of a convolution.
    pub fn takes_tiles(self) -> bool {
        matches!(self, Self::Tiles | Self::Rows)
    }

    /// Returns the name as kernels' names have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Tiles => "tiles",
            Self::LookUp => "look-up",
            Self::Gather => "gather",
            Self::Rows => "rows",
        }
    }
}
