//! Gradient of the input, `dx = dy · W`.

use super::panels;
use crate::Layout;
use crate::parallel::{Shared, for_each_part, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::tiles::{Pack, Packed, TileRows, Unpack, cut_for_all, width};
use crate::value::widened;
use crate::weight::typed;
use crate::{PackedWeight, Value, Weight};

/// Computes `dx [n, cols] = dy [n, rows] · W`.
///
/// # Panics
/// Panics if slices do not have these lengths.
pub fn dx(isa: Isa, weight: &PackedWeight<'_>, dy: &[f32], dx: &mut [f32]) {
    typed!(weight, weight => by_layout(isa, weight, dy, dx));
}

fn by_layout<V: Value>(isa: Isa, weight: &Weight<'_, V>, dy: &[f32], dx: &mut [f32]) {
    let n = dy.len() / weight.rows;
    assert_eq!([dy.len(), dx.len()], [n * weight.rows, n * weight.cols]);
    match weight.layout {
        Layout::Grouped { vector } => groups(isa, weight, vector, dy, dx),
        Layout::Balanced { .. } | Layout::Rows => panels::dx(isa, weight, dy, dx),
    }
}

/// Multiplies a tile of tokens at a time: the kept columns of a group form a dense register tile, whose results go to
/// scattered rows.
fn groups<V: Value>(isa: Isa, weight: &Weight<'_, V>, vector: usize, dy: &[f32], dx: &mut [f32]) {
    let n = dy.len() / weight.rows;
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    let tiles = cut_for_all(isa, weight.layout, n, team.threads);
    let (rows, columns) = (weight.rows, weight.cols);
    let shared = Shared::new(dx);
    for_each_part(tiles.len(), team, |at| {
        let tile = &tiles[at];
        let width = width(isa, tile);
        with_scratch((rows + columns) * width + window::<V>(vector), |scratch| {
            let (dyt, scratch) = scratch.split_at_mut(rows * width);
            let (dxt, window) = scratch.split_at_mut(columns * width);
            let packed = Shared::new(dyt);
            dispatch(isa, Pack { x: dy, cols: rows, tile, features: 0..rows, xt: packed });
            dxt.fill(0.0);
            let yt = Shared::new(dxt);
            let (dy, dx) = (Packed(dyt.as_ptr()), Packed(yt.get()));
            dispatch(isa, Scatter { weight, vector, vectors: tile.vectors, dy, dx, window });
            // Tiles own disjoint tokens of `dx`.
            let range = 0..weight.cols;
            dispatch(isa, Unpack { yt, rows: weight.cols, tile, range, y: shared });
        });
    });
}

/// Number of kept columns of a group whose values are widened at a time.
const WIDENED: usize = 64;

/// Returns the number of floats that are widened at a time.
pub(super) fn window<V: Value>(vector: usize) -> usize {
    if V::IS_F32 { 0 } else { WIDENED * vector }
}

/// Computes `dx[column] += Σ values · dy[row]` on a tile of tokens.
pub(super) struct Scatter<'a, V, Y, X> {
    pub(super) weight: &'a Weight<'a, V>,
    pub(super) vector: usize,
    /// Vectors of tokens of the tile.
    pub(super) vectors: usize,
    /// Gradients of every row.
    pub(super) dy: Y,
    /// Destination of the gradients of every column.
    pub(super) dx: X,
    /// Buffer of [`window`] floats.
    pub(super) window: &'a mut [f32],
}

impl<V: Value, Y: TileRows, X: TileRows> Work for Scatter<'_, V, Y, X> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the tiles hold a row for every row and column of the checked weight, and no tile is wider than the limit
        // of its layout.
        unsafe {
            match self.vectors {
                1 => self.groups::<S, 1>(),
                2 => self.groups::<S, 2>(),
                _ => self.groups::<S, 3>(),
            }
        }
    }
}

impl<V: Value, Y: TileRows, X: TileRows> Scatter<'_, V, Y, X> {
    #[inline(always)]
    unsafe fn groups<S: Simd, const VECTORS: usize>(self) {
        let Self { weight, vector, .. } = self;
        for (group, rows) in weight.order.chunks(vector).enumerate() {
            let end = weight.offsets[group + 1] as usize;
            let mut from = weight.offsets[group] as usize;
            while from < end {
                let to = (from + WIDENED).min(end);
                let columns = &weight.columns[from..to];
                let values = &weight.values[from * vector..to * vector];
                let values = widened::<S, V>(values, self.window);
                let tiles = (self.dy, self.dx);
                // SAFETY: guaranteed by the caller.
                unsafe {
                    match S::TALL {
                        8 => {
                            group_part::<S, Y, X, VECTORS, 8>(rows, columns, values, vector, tiles)
                        }
                        _ => {
                            group_part::<S, Y, X, VECTORS, 4>(rows, columns, values, vector, tiles)
                        }
                    }
                }
                from = to;
            }
        }
    }
}

/// Adds the products with some kept columns of a group: a dense register tile, whose results go to scattered rows.
#[inline(always)]
unsafe fn group_part<
    S: Simd,
    Y: TileRows,
    X: TileRows,
    const VECTORS: usize,
    const COLUMNS: usize,
>(
    rows: &[i32],
    columns: &[i32],
    values: *const f32,
    vector: usize,
    (dy, dx): (Y, X),
) {
    let mut at = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while at + COLUMNS <= columns.len() {
            let columns = std::array::from_fn(|i| columns[at + i]);
            let values = values.add(at * vector);
            register_tile::<S, Y, X, VECTORS, COLUMNS>(rows, columns, values, vector, dy, dx);
            at += COLUMNS;
        }
        for at in at..columns.len() {
            let values = values.add(at * vector);
            register_tile::<S, Y, X, VECTORS, 1>(rows, [columns[at]], values, vector, dy, dx);
        }
    }
}

#[inline(always)]
unsafe fn register_tile<
    S: Simd,
    Y: TileRows,
    X: TileRows,
    const VECTORS: usize,
    const COLUMNS: usize,
>(
    rows: &[i32],
    columns: [i32; COLUMNS],
    values: *const f32,
    vector: usize,
    dy: Y,
    dx: X,
) {
    let width = VECTORS * S::LANES;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sums = [[S::zero(); VECTORS]; COLUMNS];
        for (lane, &row) in rows.iter().enumerate() {
            let dy = load::<S, VECTORS>(dy.row(row as usize, width));
            for i in 0..COLUMNS {
                let w = S::splat(*values.add(i * vector + lane));
                for j in 0..VECTORS {
                    sums[i][j] = S::fma(w, dy[j], sums[i][j]);
                }
            }
        }
        for i in 0..COLUMNS {
            let to = dx.row(columns[i] as usize, width).cast_mut();
            for j in 0..VECTORS {
                let to = to.add(j * S::LANES);
                S::store(to, S::add(S::load(to), sums[i][j]));
            }
        }
    }
}

#[inline(always)]
unsafe fn load<S: Simd, const VECTORS: usize>(from: *const f32) -> [S::F; VECTORS] {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut loaded = [S::zero(); VECTORS];
        for (j, vector) in loaded.iter_mut().enumerate() {
            *vector = S::load(from.add(j * S::LANES));
        }
        loaded
    }
}
