//! Balanced Sparsity: every block of a row keeps the same number of weights, so only the column within the block
//! has to be looked up. Weights are packed in tiles of 16 rows: `values [tiles · kept_per_row, 16]`, and in-block
//! columns as bytes in the same order.

mod decode;
mod rows;

#[cfg(feature = "offline")]
pub(crate) use decode::offline as offline_decode;
#[cfg(feature = "offline")]
pub(crate) use rows::offline as offline_rows;

use cubecl::prelude::*;

use crate::candidates::candidates;
use crate::{Call, Major, transpose};

/// Rows interleaved in a tile.
pub const TILE_ROWS: usize = 16;

/// Shape of a packed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Balanced {
    /// Number of rows (outputs).
    pub rows: usize,
    /// Number of columns (the reduction).
    pub cols: usize,
    /// Columns per block, at most 256.
    pub block: usize,
    /// Kept weights per full block.
    pub kept: usize,
    /// Kept weights per row.
    pub per_row: usize,
}

impl Balanced {
    /// Returns the number of columns and of kept weights per block.
    pub(crate) fn block(&self) -> Block {
        Block { cols: self.block, kept: self.kept }
    }

    /// Returns the index of the last block of a row.
    pub(crate) fn last(&self) -> usize {
        self.cols.div_ceil(self.block) - 1
    }
}

/// Part of a weight's shape that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    pub(crate) cols: usize,
    pub(crate) kept: usize,
}

/// Kernels of this family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Streams the weights once, with lanes along the rows of a tile.
    Decode,
    /// Processes row by row, with lanes along tokens.
    Rows,
}

impl Kernel {
    /// Returns the kernels worth measuring for `tokens`, starting with the one to run without measurement; never
    /// empty.
    pub fn candidates(tokens: usize) -> Vec<Self> {
        candidates([Self::Decode, Self::Rows], decode::TOKENS, tokens)
    }

    /// Returns `true` if the kernel reads and writes feature-major activations without a transposition.
    pub fn is_features_major(self) -> bool {
        self == Self::Rows
    }

    /// Returns the kernel's name for reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Rows => "rows",
        }
    }
}

/// Computes `y` from `x`.
///
/// If the tiles alone do not fill the device, [`Kernel::Decode`] splits their slots into slices; `slices`
/// overrides the number of slices.
///
/// # Panics
/// Panics if activations are not token-major for [`Kernel::Decode`].
pub fn forward(call: &Call<'_>, weight: Balanced, kernel: Kernel, slices: Option<usize>) {
    match kernel {
        Kernel::Decode => {
            assert_eq!([call.x_major, call.y_major], [Major::Tokens; 2]);
            decode::launch(call, weight, slices);
        }
        Kernel::Rows => {
            let x = transpose::input(call, weight.cols);
            transpose::output(call, weight.rows, |y| rows::launch(call, &x, y, weight));
        }
    }
}

/// Returns the column of slot `slot`, whose byte is at index `at`, in a row whose last block has index `last`.
#[cube]
pub(crate) fn column(
    index: &[u32],
    at: usize,
    slot: usize,
    last: usize,
    #[comptime] block: Block,
) -> usize {
    // Reads bytes out of words, because not every runtime has 8-bit types.
    let byte = (index[at / 4] >> (8 * (at % 4) as u32)) & 255;
    // If full blocks keep no weights, all kept weights are in the short last block.
    let mut number = last;
    if comptime!(block.kept > 0) {
        number = min(slot / comptime!(block.kept.max(1)), last);
    }
    number * comptime!(block.cols) + byte as usize
}
