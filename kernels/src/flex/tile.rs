//! Tiles of tokens: `x` transposed to `[feature][token]`, outputs `[row][token]` transposed back.

use super::parallel::{Shared, for_each_part, part, team, with_scratch};
use super::simd::{Isa, Simd, Work, dispatch};
use super::tokens::Tokens;
use super::{Store, Value, Weight, grouped, rows};
use crate::Layout;
use crate::layout::TILE_ROWS;

/// Parts that a shared phase is cut into, per thread: a thread that wakes late still finds some.
const PARTS_PER_THREAD: usize = 4;

/// Tokens `first..first + tokens` in `vectors` vectors of lanes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tile {
    pub(crate) first: usize,
    pub(crate) tokens: usize,
    pub(crate) vectors: usize,
}

/// Lanes and the widest tiles of an instruction set.
struct Limits {
    grouped: bool,
}

impl Work for Limits {
    type Output = (usize, usize);
    unsafe fn run<S: Simd>(self) -> (usize, usize) {
        (S::LANES, if self.grouped { S::GROUPED_VECTORS } else { S::MAX_VECTORS })
    }
}

/// Cuts `n` tokens into tiles of nearly equal width, in a multiple of `threads` where there are that
/// many, so that no thread is left with a tile more.
pub(crate) fn cut(isa: Isa, layout: Layout, n: usize, threads: usize) -> Vec<Tile> {
    let grouped = matches!(layout, Layout::Grouped { .. });
    let (lanes, most) = dispatch(isa, Limits { grouped });
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
    tile.vectors * dispatch(isa, Limits { grouped: false }).0
}

pub(crate) fn run<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    tokens: &impl Tokens,
    store: Store<'_>,
) {
    let n = tokens.count();
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    let tiles = cut(isa, weight.layout, n, team.threads);
    let (x_rows, y_rows, rows) = (weight.tile_rows(), weight.padded_rows(), weight.rows);
    let multiply = |tile: &Tile, units, xt, yt| {
        with_scratch(window(weight), |window| {
            dispatch(isa, Multiply { weight, store, tile, units, xt, yt, window });
        });
    };
    if tiles.len() >= team.threads {
        // Whole tiles per thread: packed input and output stay in its own cache.
        for_each_part(tiles.len(), team, |at| {
            let tile = &tiles[at];
            let width = width(isa, tile);
            with_scratch((x_rows + y_rows) * width, |scratch| {
                let (xt, yt) = scratch.split_at_mut(x_rows * width);
                let (xt, yt) = (Shared::new(xt), Shared::new(yt));
                tokens.pack(isa, tile, 0..x_rows, xt);
                multiply(tile, 0..units(weight), xt, yt);
                tokens.unpack(isa, tile, 0..rows, yt);
            });
        });
    } else {
        // Fewer tiles than threads: all threads share each tile, phase by phase.
        let parts = team.threads * PARTS_PER_THREAD;
        for tile in &tiles {
            let width = width(isa, tile);
            with_scratch((x_rows + y_rows) * width, |scratch| {
                let (xt, yt) = scratch.split_at_mut(x_rows * width);
                let (xt, yt) = (Shared::new(xt), Shared::new(yt));
                let share = |len, run: &(dyn Fn(std::ops::Range<usize>) + Sync)| {
                    for_each_part(parts, team, |at| run(part(len, at, parts)));
                };
                share(x_rows, &|features| tokens.pack(isa, tile, features, xt));
                share(units(weight), &|units| multiply(tile, units, xt, yt));
                share(rows, &|range| tokens.unpack(isa, tile, range, yt));
            });
        }
    }
}

/// The pieces of a weight that threads may share out: groups, or tiles of 16 rows.
fn units<V>(weight: &Weight<'_, V>) -> usize {
    match weight.layout {
        Layout::Grouped { vector } => weight.rows.div_ceil(vector),
        Layout::Balanced { .. } | Layout::Rows => weight.rows.div_ceil(TILE_ROWS),
    }
}

/// Floats that a kernel widens at a time, and uses more than once.
fn window<V: Value>(weight: &Weight<'_, V>) -> usize {
    match weight.layout {
        _ if V::IS_F32 => 0,
        Layout::Grouped { vector } => grouped::PASS * vector,
        Layout::Balanced { block, .. } => rows::pass(block) * block * TILE_ROWS,
        Layout::Rows => weight.cols,
    }
}

struct Multiply<'a, V> {
    weight: &'a Weight<'a, V>,
    store: Store<'a>,
    tile: &'a Tile,
    units: std::ops::Range<usize>,
    xt: Shared,
    yt: Shared,
    /// Room for values on their way to f32, see [`window`].
    window: &'a mut [f32],
}

impl<V: Value> Work for Multiply<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { weight, store, units, window, .. } = self;
        let (tiles, vectors) = ((self.xt.get().cast_const(), self.yt.get()), self.tile.vectors);
        // SAFETY: `xt` holds the tile's packed input, `yt` room for every row; units are disjoint.
        unsafe {
            match weight.layout {
                Layout::Grouped { vector } => {
                    grouped::run::<S, V>(weight, vector, store, units, tiles, vectors, window);
                }
                Layout::Balanced { block, kept } => {
                    let layout = (block, kept);
                    rows::balanced::<S, V>(weight, layout, store, units, tiles, vectors, window);
                }
                Layout::Rows => rows::plain::<S, V>(weight, store, units, tiles, vectors, window),
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
        // A vector of tokens at a time: as many rows of `x` are read side by side, few enough for the
        // CPU to foresee each.
        for lane in (0..width).step_by(S::LANES) {
            let mut from = features.start;
            while from < features.end {
                let whole = from + S::LANES <= features.end.min(cols);
                let to = if whole { from + S::LANES } else { from + 1 };
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
                from = to;
            }
        }
    }
}

/// `y[token][row] = yt[row][token]`.
pub(crate) struct Unpack<'a> {
    pub(crate) yt: Shared,
    pub(crate) rows: usize,
    pub(crate) tile: &'a Tile,
    pub(crate) range: std::ops::Range<usize>,
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
