//! Tiles of tokens: `x` transposed to `[feature][token]`, outputs `[row][token]` transposed back.

use super::parallel::{Shared, for_each_part, part, threads, with_scratch};
use super::simd::{Isa, Simd, Work, dispatch};
use super::{Weight, grouped, rows};
use crate::{Activation, Layout};

/// Tokens `first..first + tokens` in `vectors` vectors of lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) tokens: usize,
    pub(crate) vectors: usize,
}

/// Lanes and the widest tile of an instruction set.
struct Limits;

impl Work for Limits {
    type Output = (usize, usize);
    unsafe fn run<S: Simd>(self) -> (usize, usize) {
        (S::LANES, S::MAX_VECTORS)
    }
}

/// Cuts `n` tokens into tiles of nearly equal width, in a multiple of `threads` where there are that
/// many, so that no thread is left with a tile more.
pub(crate) fn cut(isa: Isa, n: usize, threads: usize) -> Vec<Tile> {
    let (lanes, most) = dispatch(isa, Limits);
    let vectors = n.div_ceil(lanes);
    let mut tiles = vectors.div_ceil(most);
    if tiles > threads / 2 {
        tiles = tiles.next_multiple_of(threads).min(vectors);
    }
    (0..tiles)
        .map(|tile| {
            let range = part(vectors, tile, tiles);
            let (first, end) = (range.start * lanes, (range.end * lanes).min(n));
            Tile { first, tokens: end - first, vectors: range.len() }
        })
        .collect()
}

/// Floats of a tile's row.
pub(crate) fn width(isa: Isa, tile: &Tile) -> usize {
    tile.vectors * dispatch(isa, Limits).0
}

pub(crate) fn run(
    isa: Isa,
    weight: &Weight<'_>,
    x: &[f32],
    bias: Option<&[f32]>,
    activation: Activation,
    y: &mut [f32],
) {
    let n = x.len() / weight.cols;
    let threads = threads(weight.work() * n);
    let tiles = cut(isa, n, threads);
    let (x_rows, rows) = (weight.tile_rows(), weight.rows);
    let y = Shared::new(y);
    let pack = |tile: &Tile, features, xt| {
        dispatch(isa, Pack { x, cols: weight.cols, tile, features, xt });
    };
    let multiply =
        |tile: &Tile, units, xt, yt| dispatch(isa, Multiply { weight, tile, units, xt, yt });
    let unpack = |tile: &Tile, range, yt| {
        dispatch(isa, Unpack { yt, rows, tile, range, bias, activation, y });
    };
    if tiles.len() >= threads {
        // Whole tiles per thread: packed input and output stay in its own cache.
        for_each_part(threads, |thread| {
            for tile in &tiles[part(tiles.len(), thread, threads)] {
                let width = width(isa, tile);
                with_scratch((x_rows + rows) * width, |scratch| {
                    let (xt, yt) = scratch.split_at_mut(x_rows * width);
                    let (xt, yt) = (Shared::new(xt), Shared::new(yt));
                    pack(tile, 0..x_rows, xt);
                    multiply(tile, 0..units(weight), xt, yt);
                    unpack(tile, 0..rows, yt);
                });
            }
        });
    } else {
        // Fewer tiles than threads: all threads share each tile, phase by phase.
        for tile in &tiles {
            let width = width(isa, tile);
            with_scratch((x_rows + rows) * width, |scratch| {
                let (xt, yt) = scratch.split_at_mut(x_rows * width);
                let (xt, yt) = (Shared::new(xt), Shared::new(yt));
                for_each_part(threads, |t| pack(tile, part(x_rows, t, threads), xt));
                for_each_part(threads, |t| multiply(tile, part(units(weight), t, threads), xt, yt));
                for_each_part(threads, |t| unpack(tile, part(rows, t, threads), yt));
            });
        }
    }
}

/// The pieces of a weight that threads may share out: groups, or tiles of 16 rows.
fn units(weight: &Weight<'_>) -> usize {
    match weight.layout {
        Layout::Grouped { vector } => weight.rows.div_ceil(vector),
        Layout::Balanced { .. } | Layout::Rows => weight.rows.div_ceil(crate::layout::TILE_ROWS),
    }
}

struct Multiply<'a> {
    weight: &'a Weight<'a>,
    tile: &'a Tile,
    units: std::ops::Range<usize>,
    xt: Shared,
    yt: Shared,
}

impl Work for Multiply<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let (xt, yt) = (self.xt.get().cast_const(), self.yt.get());
        // SAFETY: `xt` holds the tile's packed input, `yt` room for every row; units are disjoint.
        unsafe {
            match self.weight.layout {
                Layout::Grouped { vector } => {
                    grouped::run::<S>(self.weight, vector, self.units, xt, yt, self.tile.vectors);
                }
                Layout::Balanced { block, kept } => {
                    rows::balanced::<S>(
                        self.weight,
                        (block, kept),
                        self.units,
                        xt,
                        yt,
                        self.tile.vectors,
                    );
                }
                Layout::Rows => {
                    rows::plain::<S>(self.weight, self.units, xt, yt, self.tile.vectors)
                }
            }
        }
    }
}

/// `xt[feature][token] = x[token][feature]`, zeros for tokens and features past the last.
pub(crate) struct Pack<'a> {
    pub(crate) x: &'a [f32],
    pub(crate) cols: usize,
    pub(crate) tile: &'a Tile,
    pub(crate) features: std::ops::Range<usize>,
    pub(crate) xt: Shared,
}

impl Work for Pack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { x, cols, tile, features, xt } = self;
        let (xt, width) = (xt.get(), tile.vectors * S::LANES);
        let x = &x[tile.first * cols..(tile.first + tile.tokens) * cols];
        let mut from = features.start;
        while from < features.end {
            let whole = from + S::LANES <= features.end.min(cols);
            let to = if whole { from + S::LANES } else { from + 1 };
            for lane in (0..width).step_by(S::LANES) {
                // SAFETY: whole blocks lie inside `x` and the tile; `xt` has a row of `width` floats
                // for every feature of the range.
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
            }
            from = to;
        }
    }
}

/// `y[token][row] = activation(yt[row][token] + bias[row])`.
struct Unpack<'a> {
    yt: Shared,
    rows: usize,
    tile: &'a Tile,
    range: std::ops::Range<usize>,
    bias: Option<&'a [f32]>,
    activation: Activation,
    y: Shared,
}

impl Work for Unpack<'_> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { yt, rows, tile, range, bias, activation, y } = self;
        let (yt, width) = (yt.get(), tile.vectors * S::LANES);
        let mut from = range.start;
        while from < range.end {
            let whole = from + S::LANES <= range.end;
            let to = if whole { from + S::LANES } else { from + 1 };
            // SAFETY: `yt` holds `width` floats for every row, `y` `rows` floats for every token of
            // the tile; parts own disjoint rows of both.
            unsafe {
                for row in from..to {
                    let shift = bias.map_or(0.0, |bias| bias[row]);
                    for lane in (0..width).step_by(S::LANES) {
                        let at = yt.add(row * width + lane);
                        let mut value = S::add(S::load(at), S::splat(shift));
                        if activation == Activation::Relu {
                            value = S::max(value, S::zero());
                        }
                        S::store(at, value);
                    }
                }
                let y = y.get().add(tile.first * rows + from);
                for lane in (0..tile.tokens).step_by(S::LANES) {
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
            }
            from = to;
        }
    }
}
