use std::ops::Range;

use super::parallel::Shared;
use super::simd::{Isa, dispatch};
use super::tile::{Pack, Tile, Unpack};

/// Where the inputs of a product's tokens are, and where their outputs go.
pub(crate) trait Tokens: Sync {
    /// How many there are.
    fn count(&self) -> usize;

    /// `xt[feature][token]` for these features of a tile, zeros for tokens and features past the last.
    fn pack(&self, isa: Isa, tile: &Tile, features: Range<usize>, xt: Shared);

    /// Hands these rows of `yt[row][token]` on. Calls at a time are for different rows or tiles.
    fn unpack(&self, isa: Isa, tile: &Tile, rows: Range<usize>, yt: Shared);
}

/// Tokens one after the other: `x [n, cols]` to `y [n, rows]`.
pub(crate) struct Lines<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) cols: usize,
    pub(crate) y: Shared,
    pub(crate) rows: usize,
}

impl Tokens for Lines<'_> {
    fn count(&self) -> usize {
        self.x.len() / self.cols
    }

    fn pack(&self, isa: Isa, tile: &Tile, features: Range<usize>, xt: Shared) {
        dispatch(isa, Pack { x: self.x, cols: self.cols, tile, features, xt });
    }

    fn unpack(&self, isa: Isa, tile: &Tile, range: Range<usize>, yt: Shared) {
        dispatch(isa, Unpack { yt, rows: self.rows, tile, range, y: self.y });
    }
}
