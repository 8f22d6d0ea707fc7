//! Positions of slots: in the packed arrays, and in the matrix.

use cubecl::prelude::*;

/// Part of a weight's shape that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Balanced { block: usize, kept: usize },
    Listed,
}

/// Slots of a tile: the first one, and their number.
#[derive(CubeType)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) slots: usize,
}

#[cube]
impl Tile {
    /// Returns the slots of tile `tile`, given those of a balanced row.
    pub(crate) fn of(offsets: &[u32], tile: usize, per_row: usize, #[comptime] kind: Kind) -> Tile {
        match comptime!(kind) {
            Kind::Balanced { .. } => Tile { first: tile * per_row, slots: per_row },
            Kind::Listed => {
                let first = offsets[tile] as usize;
                Tile { first, slots: offsets[tile + 1] as usize - first }
            }
        }
    }
}

/// Returns the column of a row's slot `slot`, whose index is at `at`, in a matrix whose last block has index `last`; see
/// [`is_padding`].
#[cube]
pub(crate) fn column(
    index: &[u32],
    at: usize,
    slot: usize,
    last: usize,
    #[comptime] kind: Kind,
) -> usize {
    match comptime!(kind) {
        Kind::Balanced { block, kept } => {
            // Reads bytes out of words, because not every runtime has 8-bit types.
            let byte = (index[at / 4] >> (8 * (at % 4) as u32)) & 255;
            // If full blocks keep no weights, all kept weights are in the short last block.
            let mut number = last;
            if comptime!(kept > 0) {
                number = min(slot / comptime!(kept.max(1)), last);
            }
            number * comptime!(block) + byte as usize
        }
        Kind::Listed => index[at] as usize,
    }
}

/// Returns `true` if a slot at this column only pads its row.
#[cube]
pub(crate) fn is_padding(col: usize, cols: usize, #[comptime] kind: Kind) -> bool {
    let mut padding = false;
    if comptime!(kind == Kind::Listed) {
        padding = col >= cols;
    }
    padding
}
