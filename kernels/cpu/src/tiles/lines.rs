use std::ops::Range;

use super::tile::Tile;
use crate::parallel::Shared;
use crate::simd::{Isa, Simd, Work, dispatch};

/// Token-major activations: input `x [n, cols]` and output `y [n, rows]`.
pub(crate) struct Lines<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) cols: usize,
    pub(crate) y: Shared,
    pub(crate) rows: usize,
}

impl Lines<'_> {
    /// Returns the number of tokens.
    pub(crate) fn count(&self) -> usize {
        self.x.len() / self.cols
    }

    /// Packs `xt[feature][token]` for these features of a tile, with zeros for tokens and features past the last.
    pub(crate) fn pack(&self, isa: Isa, tile: &Tile, features: Range<usize>, xt: Shared) {
        dispatch(isa, Pack { x: self.x, cols: self.cols, tile, features, xt });
    }

    /// Transposes these rows of `yt[row][token]` to the output. Concurrent calls must be for different rows or tiles.
    pub(crate) fn unpack(&self, isa: Isa, tile: &Tile, range: Range<usize>, yt: Shared) {
        dispatch(isa, Unpack { yt, rows: self.rows, tile, range, y: self.y });
    }
}

/// Writes `xt[feature][token] = x[token][feature]`, with zeros for tokens and features past the last.
pub(crate) struct Pack<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) cols: usize,
    pub(crate) tile: &'a Tile,
    pub(crate) features: Range<usize>,
    pub(crate) xt: Shared,
}

impl Work for Pack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, cols, tile, features, xt } = self;
        let (xt, width) = (xt.get(), tile.vectors * S::LANES);
        let x = &x[tile.first * cols..(tile.first + tile.tokens) * cols];
        // Processes a vector of tokens at a time: as many rows of `x` are read side by side, few enough for the CPU to
        // prefetch each.
        for lane in (0..width).step_by(S::LANES) {
            let mut from = features.start;
            while from < features.end {
                let whole = from + S::LANES <= features.end.min(cols);
                let to = if whole { from + S::LANES } else { from + 1 };
                // SAFETY: whole blocks are inside `x` and the tile; `xt` has a row of `width` floats for every feature
                // of the range.
                unsafe {
                    if whole && lane + S::LANES <= tile.tokens {
                        let block = x.as_ptr().add(lane * cols + from);
                        S::transpose(block, cols, xt.add(from * width + lane), width);
                    } else {
                        for feature in from..to {
                            for token in lane..lane + S::LANES {
                                let inside = token < tile.tokens && feature < cols;
                                let value = if inside { x[token * cols + feature] } else { 0.0 };
                                *xt.add(feature * width + token) = value;
                            }
                        }
                    }
                }
                from = to;
            }
        }
    }
}

/// Writes `y[token][row] = yt[row][token]`.
pub(crate) struct Unpack<'a> {
    pub(crate) yt: Shared,
    pub(crate) rows: usize,
    pub(crate) tile: &'a Tile,
    pub(crate) range: Range<usize>,
    pub(crate) y: Shared,
}

impl Work for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { yt, rows, tile, range, y } = self;
        let (yt, width) = (yt.get(), tile.vectors * S::LANES);
        for lane in (0..tile.tokens).step_by(S::LANES) {
            let mut from = range.start;
            while from < range.end {
                let whole = from + S::LANES <= range.end;
                let to = if whole { from + S::LANES } else { from + 1 };
                // SAFETY: `yt` holds `width` floats for every row, `y` `rows` floats for every token
                // of the tile; parts own disjoint rows of both.
                unsafe {
                    let y = y.get().add(tile.first * rows + from);
                    if whole && lane + S::LANES <= tile.tokens {
                        S::transpose(yt.add(from * width + lane), width, y.add(lane * rows), rows);
                    } else {
                        for row in 0..to - from {
                            for token in lane..(lane + S::LANES).min(tile.tokens) {
                                *y.add(token * rows + row) = *yt.add((from + row) * width + token);
                            }
                        }
                    }
                }
                from = to;
            }
        }
    }
}
