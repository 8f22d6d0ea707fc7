//! Products of tiles and a packed weight.

use std::ops::Range;

use super::lines::Lines;
use super::tile::{Tile, cut, width};
use super::tile_rows::Packed;
use super::{grouped, rows};
use crate::Layout;
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_part, for_each_range, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::{Store, Value, Weight};

pub(crate) fn run<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    tokens: &Lines<'_>,
    store: Store<'_>,
) {
    let n = tokens.count();
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    let tiles = cut(isa, weight.layout, n, team.threads);
    let (x_rows, y_rows, rows) = (weight.tile_rows(), weight.padded_rows(), weight.rows);
    let multiply = |tile: &Tile, units, xt, yt| multiply(isa, weight, store, tile, units, xt, yt);
    if tiles.len() >= team.threads {
        // Whole tiles per thread: the packed input and output stay in its own cache.
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
        for tile in &tiles {
            let width = width(isa, tile);
            with_scratch((x_rows + y_rows) * width, |scratch| {
                let (xt, yt) = scratch.split_at_mut(x_rows * width);
                let (xt, yt) = (Shared::new(xt), Shared::new(yt));
                let share =
                    |len, run: &(dyn Fn(Range<usize>) + Sync)| for_each_range(len, team, run);
                share(x_rows, &|features| tokens.pack(isa, tile, features, xt));
                share(units(weight), &|units| multiply(tile, units, xt, yt));
                share(rows, &|range| tokens.unpack(isa, tile, range, yt));
            });
        }
    }
}

/// Computes `yt[row] = activation(bias + Σ values · xt[column])` for these units of a weight and the tokens of a tile.
/// `yt` holds [`width`] floats for every padded row, and `xt` for each of the [`Weight::tile_rows`] rows.
pub(crate) fn multiply<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    store: Store<'_>,
    tile: &Tile,
    units: Range<usize>,
    xt: Shared,
    yt: Shared,
) {
    with_scratch(window(weight), |window| {
        dispatch(isa, Multiply { weight, store, tile, units, xt, yt, window });
    });
}

/// Returns the number of units of a weight that can be divided among threads: groups, or tiles of 16 rows.
pub(crate) fn units<V>(weight: &Weight<'_, V>) -> usize {
    match weight.layout {
        Layout::Grouped { vector } => weight.rows.div_ceil(vector),
        Layout::Balanced { .. } | Layout::Rows => weight.rows.div_ceil(TILE_ROWS),
    }
}

/// Returns the number of floats that a kernel widens at a time and uses more than once.
pub(crate) fn window<V: Value>(weight: &Weight<'_, V>) -> usize {
    match weight.layout {
        _ if V::IS_F32 => 0,
        Layout::Grouped { vector } => grouped::PASS * vector,
        Layout::Balanced { block, .. } => rows::pass(block) * block * TILE_ROWS,
        Layout::Rows => rows::WIDENED_SLOTS * TILE_ROWS,
    }
}

struct Multiply<'a, V> {
    weight: &'a Weight<'a, V>,
    store: Store<'a>,
    tile: &'a Tile,
    units: Range<usize>,
    xt: Shared,
    yt: Shared,
    /// Buffer for values widened to f32, see [`window`].
    window: &'a mut [f32],
}

impl<V: Value> Work for Multiply<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        let Self { weight, store, units, window, .. } = self;
        let (tiles, vectors) = ((self.xt.get().cast_const(), self.yt.get()), self.tile.vectors);
        // SAFETY: `xt` holds the tile's packed input, and `yt` has room for every row; units are disjoint.
        unsafe {
            match weight.layout {
                Layout::Grouped { vector } => {
                    let tiles = (Packed(tiles.0), tiles.1);
                    grouped::run::<S, V, _>(weight, vector, store, units, tiles, vectors, window);
                }
                Layout::Balanced { block, kept } => {
                    let layout = (block, kept);
                    rows::balanced::<S, V>(weight, layout, store, units, tiles, vectors, window);
                }
                Layout::Rows => {
                    rows::unstructured::<S, V>(weight, store, units, tiles, vectors, window);
                }
            }
        }
    }
}
