//! Balanced Sparsity: every block of a row keeps the same count, so there is nothing to look up but the
//! column inside the block. Tiles of 16 rows: `values [tiles · kept_per_row, 16]`, in-block columns as
//! bytes in the same order.

mod decode;
mod rows;

#[cfg(feature = "offline")]
pub(crate) use decode::offline as offline_decode;
#[cfg(feature = "offline")]
pub(crate) use rows::offline as offline_rows;

use cubecl::prelude::*;

use crate::candidates::candidates;
use crate::{Call, Major, transpose};

/// Rows that a tile interleaves.
pub const TILE_ROWS: usize = 16;

/// A packed weight's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Balanced {
    /// Outputs.
    pub rows: usize,
    /// Reduction.
    pub cols: usize,
    /// Columns of a block, at most 256.
    pub block: usize,
    /// Kept weights of a full block.
    pub kept: usize,
    /// Kept weights of a row.
    pub per_row: usize,
}

impl Balanced {
    /// Which slots are whose.
    pub(crate) fn block(&self) -> Block {
        Block { cols: self.block, kept: self.kept }
    }

    /// The number of the last block of a row.
    pub(crate) fn last(&self) -> usize {
        self.cols.div_ceil(self.block) - 1
    }
}

/// The part of a weight's shape that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Block {
    pub(crate) cols: usize,
    pub(crate) kept: usize,
}

/// The kernels of this family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Weights streamed once, lanes along the rows of a tile.
    Decode,
    /// Row after row, lanes along tokens.
    Rows,
}

impl Kernel {
    /// Those worth measuring for `tokens`, first the one to run unmeasured; never none.
    pub fn candidates(tokens: usize) -> Vec<Self> {
        candidates([Self::Decode, Self::Rows], decode::TOKENS, tokens)
    }

    /// Whether it takes and gives activations features-major without a transposition.
    pub fn is_features_major(self) -> bool {
        self == Self::Rows
    }

    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decode => "decode",
            Self::Rows => "rows",
        }
    }
}

/// `y` from `x`.
///
/// Where the tiles alone do not fill the device, [`Kernel::Decode`] slices their slots; `slices` says into how
/// many instead.
///
/// # Panics
/// When activations are not tokens-major for [`Kernel::Decode`].
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

/// The column of slot `slot`, whose byte is at `at`, in a row whose last block is number `last`.
#[cube]
pub(crate) fn column(
    index: &[u32],
    at: usize,
    slot: usize,
    last: usize,
    #[comptime] block: Block,
) -> usize {
    // Bytes are read out of words: not every runtime has 8-bit types.
    let byte = (index[at / 4] >> (8 * (at % 4) as u32)) & 255;
    // Without kept weights in full blocks, all are in the short last one.
    let mut number = last;
    if comptime!(block.kept > 0) {
        number = min(slot / comptime!(block.kept.max(1)), last);
    }
    number * comptime!(block.cols) + byte as usize
}
