//! Gradient of the input, `dx = dy · W`.

use crate::Layout;
use crate::cpu::parallel::{Shared, for_each_part, team, with_scratch};
use crate::cpu::simd::{Isa, Simd, Work, dispatch};
use crate::cpu::tiles::{Pack, Unpack, cut_for_all, width};
use crate::cpu::value::widened;
use crate::cpu::{Value, Weight};
use crate::layout::TILE_ROWS;

/// Columns per pass of weights whose rows share no columns, so that their rows of the tile stay in the first-level cache
/// while every row of the weight adds to them: 96 columns of 64 tokens are 24 KB.
const PASS_COLUMNS: usize = 96;

/// Computes `dx [n, cols] = dy [n, rows] · W`.
pub(crate) fn dx<V: Value>(isa: Isa, weight: &Weight<'_, V>, dy: &[f32], dx: &mut [f32]) {
    let n = dy.len() / weight.rows;
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    let tiles = cut_for_all(isa, weight.layout, n, team.threads);
    let (rows, columns) = (weight.rows, weight.tile_rows());
    let shared = Shared::new(dx);
    for_each_part(tiles.len(), team, |at| {
        let tile = &tiles[at];
        let width = width(isa, tile);
        with_scratch((rows + columns) * width + window(weight), |scratch| {
            let (dyt, scratch) = scratch.split_at_mut(rows * width);
            let (dxt, window) = scratch.split_at_mut(columns * width);
            let packed = Shared::new(dyt);
            dispatch(isa, Pack { x: dy, cols: rows, tile, features: 0..rows, xt: packed });
            dxt.fill(0.0);
            let yt = Shared::new(dxt);
            dispatch(isa, Scatter { weight, vectors: tile.vectors, dyt, dxt: yt, window });
            // Tiles own disjoint tokens of `dx`.
            let range = 0..weight.cols;
            dispatch(isa, Unpack { yt, rows: weight.cols, tile, range, y: shared });
        });
    });
}

/// Kept columns of a group whose values are widened at a time.
const WIDENED: usize = 64;

/// Returns the number of floats that are widened at a time.
fn window<V: Value>(weight: &Weight<'_, V>) -> usize {
    match weight.layout {
        Layout::Grouped { vector } if !V::IS_F32 => WIDENED * vector,
        _ => 0,
    }
}

/// Computes `dxt[column] += Σ values · dyt[row]` on a tile of tokens.
struct Scatter<'a, V> {
    weight: &'a Weight<'a, V>,
    vectors: usize,
    dyt: &'a [f32],
    dxt: Shared,
    window: &'a mut [f32],
}

impl<V: Value> Work for Scatter<'_, V> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: the tiles hold a row for every row and column of the checked weight, and no tile is wider than the limit
        // of its layout.
        unsafe {
            match (self.weight.layout, self.vectors) {
                (Layout::Grouped { vector }, 1) => self.groups::<S, 1>(vector),
                (Layout::Grouped { vector }, 2) => self.groups::<S, 2>(vector),
                (Layout::Grouped { vector }, _) => self.groups::<S, 3>(vector),
                (Layout::Balanced { block, kept }, 1) => self.balanced::<S, 1>(block, kept),
                (Layout::Balanced { block, kept }, 2) => self.balanced::<S, 2>(block, kept),
                (Layout::Balanced { block, kept }, 3) => self.balanced::<S, 3>(block, kept),
                (Layout::Balanced { block, kept }, _) => self.balanced::<S, 4>(block, kept),
                (Layout::Rows, 1) => self.rows::<S, 1>(),
                (Layout::Rows, 2) => self.rows::<S, 2>(),
                (Layout::Rows, 3) => self.rows::<S, 3>(),
                (Layout::Rows, _) => self.rows::<S, 4>(),
            }
        }
    }
}

impl<V: Value> Scatter<'_, V> {
    #[inline(always)]
    unsafe fn groups<S: Simd, const VECTORS: usize>(self, vector: usize) {
        let weight = self.weight;
        for (group, rows) in weight.order.chunks(vector).enumerate() {
            let end = weight.offsets[group + 1] as usize;
            let mut from = weight.offsets[group] as usize;
            while from < end {
                let to = (from + WIDENED).min(end);
                let columns = &weight.columns[from..to];
                let values = &weight.values[from * vector..to * vector];
                let values = widened::<S, V>(values, self.window);
                let tiles = (self.dyt.as_ptr(), self.dxt.get());
                // SAFETY: guaranteed by the caller.
                unsafe {
                    match S::TALL {
                        8 => group_part::<S, VECTORS, 8>(rows, columns, values, vector, tiles),
                        _ => group_part::<S, VECTORS, 4>(rows, columns, values, vector, tiles),
                    }
                }
                from = to;
            }
        }
    }

    #[inline(always)]
    unsafe fn balanced<S: Simd, const VECTORS: usize>(self, block: usize, kept: usize) {
        let (weight, width) = (self.weight, VECTORS * S::LANES);
        let (per_row, blocks) = (weight.kept_per_row(), weight.cols.div_ceil(block));
        let pass = (PASS_COLUMNS / block).max(1);
        for from in (0..blocks).step_by(pass) {
            let to = (from + pass).min(blocks);
            for row in 0..weight.rows {
                let first = (row / TILE_ROWS) * per_row * TILE_ROWS + row % TILE_ROWS;
                // SAFETY: guaranteed by the caller; an in-block byte stays inside the padded tile.
                unsafe {
                    let dy = load::<S, VECTORS>(self.dyt.as_ptr().add(row * width));
                    for b in from..to {
                        let dxt = self.dxt.get().add(b * block * width);
                        let end = if b + 1 == blocks { per_row } else { (b + 1) * kept };
                        for slot in b * kept..end {
                            let at = first + slot * TILE_ROWS;
                            let w = weight.values.get_unchecked(at).widen();
                            let column = usize::from(*weight.in_block.get_unchecked(at));
                            add::<S, VECTORS>(dxt.add(column * width), w, &dy);
                        }
                    }
                }
            }
        }
    }

    #[inline(always)]
    unsafe fn rows<S: Simd, const VECTORS: usize>(self) {
        let (weight, width) = (self.weight, VECTORS * S::LANES);
        let mut next: Vec<usize> = weight.offsets.iter().map(|&at| at as usize).collect();
        let passes = weight.cols.div_ceil(PASS_COLUMNS);
        for pass in 1..=passes {
            // Columns of a row need not rise; the last pass takes all that are left.
            let end = if pass == passes { i32::MAX } else { (pass * PASS_COLUMNS) as i32 };
            for row in 0..weight.rows {
                let last = weight.offsets[row + 1] as usize;
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let dy = load::<S, VECTORS>(self.dyt.as_ptr().add(row * width));
                    let mut at = next[row];
                    while at < last && *weight.columns.get_unchecked(at) < end {
                        let w = weight.values.get_unchecked(at).widen();
                        let column = *weight.columns.get_unchecked(at) as usize;
                        add::<S, VECTORS>(self.dxt.get().add(column * width), w, &dy);
                        at += 1;
                    }
                    next[row] = at;
                }
            }
        }
    }
}

/// Adds the products with some kept columns of a group: a dense register tile, whose results go to scattered rows.
#[inline(always)]
unsafe fn group_part<S: Simd, const VECTORS: usize, const COLUMNS: usize>(
    rows: &[i32],
    columns: &[i32],
    values: *const f32,
    vector: usize,
    (dyt, dxt): (*const f32, *mut f32),
) {
    let mut at = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while at + COLUMNS <= columns.len() {
            let columns = std::array::from_fn(|i| columns[at + i]);
            let values = values.add(at * vector);
            register_tile::<S, VECTORS, COLUMNS>(rows, columns, values, vector, dyt, dxt);
            at += COLUMNS;
        }
        for at in at..columns.len() {
            let values = values.add(at * vector);
            register_tile::<S, VECTORS, 1>(rows, [columns[at]], values, vector, dyt, dxt);
        }
    }
}

#[inline(always)]
unsafe fn register_tile<S: Simd, const VECTORS: usize, const COLUMNS: usize>(
    rows: &[i32],
    columns: [i32; COLUMNS],
    values: *const f32,
    vector: usize,
    dyt: *const f32,
    dxt: *mut f32,
) {
    let width = VECTORS * S::LANES;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let mut sums = [[S::zero(); VECTORS]; COLUMNS];
        for (lane, &row) in rows.iter().enumerate() {
            let dy = load::<S, VECTORS>(dyt.add(row as usize * width));
            for i in 0..COLUMNS {
                let w = S::splat(*values.add(i * vector + lane));
                for j in 0..VECTORS {
                    sums[i][j] = S::fma(w, dy[j], sums[i][j]);
                }
            }
        }
        for i in 0..COLUMNS {
            let to = dxt.add(columns[i] as usize * width);
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

/// Computes `to += value · dy`.
#[inline(always)]
unsafe fn add<S: Simd, const VECTORS: usize>(to: *mut f32, value: f32, dy: &[S::F; VECTORS]) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        let w = S::splat(value);
        for (j, &dy) in dy.iter().enumerate() {
            let to = to.add(j * S::LANES);
            S::store(to, S::fma(w, dy, S::load(to)));
        }
    }
}
