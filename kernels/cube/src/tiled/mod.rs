//! Kernels for weights in tiles of 16 rows: Balanced Sparsity, and rows of any kind. A slot holds one kept weight of each row of
//! its tile: `values [slots, 16]`, with an index of the same shape, see [`Slots`].

mod decode;
mod place;
mod rows;

#[cfg(feature = "offline")]
pub(crate) use decode::offline as offline_decode;
pub(crate) use place::{Kind, Tile, column, is_padding};
#[cfg(feature = "offline")]
pub(crate) use rows::offline as offline_rows;

use cubecl::prelude::*;

use crate::candidates::candidates;
use crate::{Buffer, Call, Major, transpose};

/// Rows interleaved in a tile.
pub const TILE_ROWS: usize = 16;

/// Shape of a packed weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tiled {
    /// Number of rows (outputs).
    pub rows: usize,
    /// Number of columns (the reduction).
    pub cols: usize,
    /// How slots find their columns.
    pub slots: Slots,
}

/// How the slots of a tile find their columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slots {
    /// Balanced Sparsity: every block of a row keeps the same number of weights, so only the column within the block, a byte,
    /// has to be looked up. All tiles have the same number of slots, and rows are not permuted.
    Balanced {
        /// Columns per block, at most 256.
        block: usize,
        /// Kept weights per full block.
        kept: usize,
        /// Kept weights per row.
        per_row: usize,
    },
    /// Rows of any kind: column ids as `u32`, the offsets at which tiles begin, and the row at every place. Shorter rows are
    /// padded with zeros at column `cols`.
    Listed {
        /// Slots of all tiles.
        all: usize,
    },
}

impl Tiled {
    /// Returns the number of tiles.
    pub(crate) fn tiles(&self) -> usize {
        self.rows.div_ceil(TILE_ROWS)
    }

    /// Returns the part of the shape that kernels are compiled for.
    pub(crate) fn kind(&self) -> Kind {
        match self.slots {
            Slots::Balanced { block, kept, .. } => Kind::Balanced { block, kept },
            Slots::Listed { .. } => Kind::Listed,
        }
    }

    /// Returns the number of slots per tile, the mean if tiles differ.
    pub(crate) fn per_tile(&self) -> usize {
        match self.slots {
            Slots::Balanced { per_row, .. } => per_row,
            Slots::Listed { all } => all / self.tiles(),
        }
    }

    /// Returns the index of the last block of a row, 0 if there are no blocks.
    pub(crate) fn last(&self) -> usize {
        match self.slots {
            Slots::Balanced { block, .. } => self.cols.div_ceil(block) - 1,
            Slots::Listed { .. } => 0,
        }
    }

    /// Returns the index as an argument of words, of four bytes or one id each.
    pub(crate) fn index(&self, index: &Buffer) -> BufferArg {
        match self.slots {
            Slots::Balanced { .. } => index.words(4),
            Slots::Listed { .. } => index.arg(),
        }
    }
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

/// Computes `y = activation(x · Wᵀ + bias)`, with `x [tokens, cols]` and `y [tokens, rows]`, or both transposed if feature-major.
///
/// If the tiles alone do not fill the device, [`Kernel::Decode`] splits their slots into slices; `slices`
/// overrides the number of slices.
///
/// # Panics
/// Panics if activations are not token-major for [`Kernel::Decode`].
pub fn forward(call: &Call<'_>, weight: Tiled, kernel: Kernel, slices: Option<usize>) {
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
