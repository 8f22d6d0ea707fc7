//! Gradients of values as dot products along tokens: vectors run along tokens, and each sum has a register.

use std::ops::Range;

use crate::Layout;
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_range, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::tiles::{Pack, Packed, Tile, TileRows, units, width};
use crate::{Value, Weight};

/// Number of tokens per chunk for groups: the sums of a register tile are added up once per chunk, and eight features of
/// a chunk stay in the first-level cache.
const GROUPED_TOKENS: usize = 1024;

/// Number of input floats in a chunk of tokens if rows share no columns, so that they stay in the second-level cache
/// while every row reads its own.
const CHUNK: usize = 128 << 10;

/// Minimum number of tokens in a chunk.
const FEWEST: usize = 64;

/// Adds `Σ_token dy[row] · x[column]` to the gradient of every stored value.
pub(super) fn add<V: Value>(
    isa: Isa,
    weight: &Weight<'_, V>,
    x: &[f32],
    dy: &[f32],
    dw: &mut [f32],
) {
    let (rows, cols) = (weight.rows, weight.cols);
    let n = x.len() / cols;
    let most = match weight.layout {
        Layout::Grouped { .. } => GROUPED_TOKENS,
        _ => (CHUNK / cols).next_multiple_of(FEWEST).clamp(FEWEST, GROUPED_TOKENS),
    };
    let team = team(weight.work() * n, 0);
    let dw = Shared::new(dw);
    for first in (0..n).step_by(most) {
        let one = Tile { first, tokens: most.min(n - first), vectors: 1 };
        let lanes = width(isa, &one);
        let tile = Tile { vectors: one.tokens.div_ceil(lanes), ..one };
        let width = tile.vectors * lanes;
        with_scratch((rows + cols) * width, |scratch| {
            let (xt, dyt) = scratch.split_at_mut(cols * width);
            for (from, features, to) in [(x, cols, &mut *xt), (dy, rows, &mut *dyt)] {
                let (to, tile) = (Shared::new(to), &tile);
                for_each_range(features, team, |range| {
                    dispatch(isa, Pack { x: from, cols: features, tile, features: range, xt: to });
                });
            }
            let (xt, dyt) = (&*xt, &*dyt);
            for_each_range(units(weight), team, |units| {
                let (x, dy) = (Packed(xt.as_ptr()), Packed(dyt.as_ptr()));
                dispatch(isa, Dots { weight, units, x, dy, vectors: tile.vectors, dw });
            });
        });
    }
}

/// Adds the dot products of some units of a weight. Tokens without an output have a gradient of zero.
pub(super) struct Dots<'a, V, X, Y> {
    pub(super) weight: &'a Weight<'a, V>,
    pub(super) units: Range<usize>,
    /// Inputs of every column.
    pub(super) x: X,
    /// Gradients of every row.
    pub(super) dy: Y,
    /// Vectors of tokens of a feature.
    pub(super) vectors: usize,
    /// Gradients of the values; each unit writes only its own.
    pub(super) dw: Shared,
}

impl<V: Value, X: TileRows, Y: TileRows> Work for Dots<'_, V, X, Y> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the tiles hold a row for every row and column of the checked weight; one sum per lane.
        unsafe {
            match (self.weight.layout, S::LANES) {
                (Layout::Grouped { vector }, 16) => self.groups::<S, 4, 4>(vector),
                (Layout::Grouped { vector }, 8) => self.groups::<S, 4, 2>(vector),
                (Layout::Grouped { vector }, _) => self.groups::<S, 2, 2>(vector),
                (_, 4) => self.rows::<S, 4>(),
                _ => self.rows::<S, 8>(),
            }
        }
    }
}

impl<V: Value, X: TileRows, Y: TileRows> Dots<'_, V, X, Y> {
    /// Computes tiles of `ROWS` rows and `COLUMNS` kept columns of a group.
    #[inline(always)]
    unsafe fn groups<S: Simd, const ROWS: usize, const COLUMNS: usize>(self, vector: usize) {
        let (weight, width) = (self.weight, self.vectors * S::LANES);
        for group in self.units.clone() {
            let rows = &weight.order[group * vector..((group + 1) * vector).min(weight.rows)];
            let slots = weight.offsets[group] as usize..weight.offsets[group + 1] as usize;
            for slot in slots.clone().step_by(COLUMNS) {
                let columns = COLUMNS.min(slots.end - slot);
                for (at, rows) in rows.chunks(ROWS).enumerate() {
                    let mut found = [0.0_f32; 16];
                    // SAFETY: every feature has `width` floats, and there are `slots.end · vector` gradients, of which
                    // this group is this thread's.
                    unsafe {
                        // Tiles past the end repeat the last row and column, and drop the results.
                        let mut x = [std::ptr::null(); COLUMNS];
                        for i in 0..COLUMNS {
                            let column = weight.columns[(slot + i).min(slots.end - 1)];
                            x[i] = self.x.row(column as usize, width);
                        }
                        let mut dy = [std::ptr::null(); ROWS];
                        for i in 0..ROWS {
                            dy[i] = self.dy.row(rows[i.min(rows.len() - 1)] as usize, width);
                        }
                        let sums = grid::<S, ROWS, COLUMNS>(dy, x, self.vectors);
                        S::store(found.as_mut_ptr(), sums);
                        for (i, found) in found.chunks_exact(ROWS).take(columns).enumerate() {
                            let to = self.dw.get().add((slot + i) * vector + at * ROWS);
                            for (lane, found) in found.iter().take(rows.len()).enumerate() {
                                *to.add(lane) += found;
                            }
                        }
                    }
                }
            }
        }
    }

    /// Computes the kept entries of a row, as many at a time as a vector has lanes, in parts of `PART`.
    #[inline(always)]
    unsafe fn rows<S: Simd, const PART: usize>(self) {
        let (weight, width) = (self.weight, self.vectors * S::LANES);
        let end = (self.units.end * TILE_ROWS).min(weight.rows);
        let mut entries: Vec<(usize, usize)> = Vec::new();
        for place in self.units.start * TILE_ROWS..end {
            entries.clear();
            let mut row = 0;
            weight.entries(place..place + 1, |of, column, at| {
                row = of;
                entries.push((column, at));
            });
            // SAFETY: every feature has `width` floats.
            let dy = unsafe { self.dy.row(row, width) };
            for entries in entries.chunks(S::LANES) {
                // SAFETY: every feature has `width` floats; parts fill one vector of sums; `entries` point to gradients
                // of this row, which only this thread writes.
                unsafe {
                    let mut sums = [S::zero(); 16];
                    for (part, entries) in entries.chunks(PART).enumerate() {
                        let last = entries.len() - 1;
                        let mut x = [std::ptr::null(); PART];
                        for i in 0..PART {
                            x[i] = self.x.row(entries[i.min(last)].0, width);
                        }
                        let found = line::<S, PART>(dy, x, self.vectors);
                        sums[part * PART..(part + 1) * PART].copy_from_slice(&found);
                    }
                    let mut found = [0.0_f32; 16];
                    S::store(found.as_mut_ptr(), S::sums(&sums));
                    for (&(_, at), found) in entries.iter().zip(found) {
                        *self.dw.get().add(at) += found;
                    }
                }
            }
        }
    }
}

/// Returns the dot products of every row with every column, rows first.
#[inline(always)]
unsafe fn grid<S: Simd, const ROWS: usize, const COLUMNS: usize>(
    dy: [*const f32; ROWS],
    x: [*const f32; COLUMNS],
    vectors: usize,
) -> S::F {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sums = [S::zero(); 16];
        for vector in 0..vectors {
            let mut b = [S::zero(); ROWS];
            for i in 0..ROWS {
                b[i] = S::load(dy[i].add(vector * S::LANES));
            }
            for j in 0..COLUMNS {
                let a = S::load(x[j].add(vector * S::LANES));
                for i in 0..ROWS {
                    sums[j * ROWS + i] = S::fma(a, b[i], sums[j * ROWS + i]);
                }
            }
        }
        S::sums(&sums)
    }
}

/// Returns, for every column, its products with a row, added up lane by lane.
#[inline(always)]
unsafe fn line<S: Simd, const COLUMNS: usize>(
    dy: *const f32,
    x: [*const f32; COLUMNS],
    vectors: usize,
) -> [S::F; COLUMNS] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sums = [S::zero(); COLUMNS];
        for vector in 0..vectors {
            let dy = S::load(dy.add(vector * S::LANES));
            for j in 0..COLUMNS {
                sums[j] = S::fma(dy, S::load(x[j].add(vector * S::LANES)), sums[j]);
            }
        }
        sums
    }
}
