use super::simd::Isa;
use super::tokens_major::{decode, gather};
use crate::Layout;

/// Kernel that multiplies by a packed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CpuKernel {
    /// Streams weights once, with vectors along the rows of a group.
    Decode,
    /// Multiplies register tiles of gathered columns, with vectors along tokens.
    Tiles,
    /// Looks up every row's own inputs of a block, with vectors along 16 rows.
    LookUp,
    /// Gathers every row's own inputs, with vectors along 16 rows.
    Gather,
    /// Processes a few rows at a time, with vectors along tokens.
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

    /// Returns `true` if the kernel takes tiles of tokens, which may be the pixels of a convolution.
    pub fn takes_tiles(self) -> bool {
        matches!(self, Self::Tiles | Self::Rows)
    }

    /// Returns the name, as used in kernel names.
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
