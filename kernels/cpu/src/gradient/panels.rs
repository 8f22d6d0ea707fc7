//! Gradient of the input through weights whose rows share no columns.
//!
//! A weight is cut into panels of some rows. The entries of a panel are sorted by column, once for all tokens and in a few
//! cycles each, so that sums of a column stay in registers: adding to the columns row by row would load and store a sum for
//! every entry.

use std::ops::Range;
use std::sync::OnceLock;

use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_part, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::tiles::{Pack, Packed, TileRows, Unpack, cut_for_all, width};
use crate::{Value, Weight};

/// Number of entries per column that a panel should have on average, so that its sums are rarely loaded and stored.
const ENTRIES: usize = 24;

/// Maximum number of rows of a panel, so that their gradients stay in a fast cache while all columns use them.
const ROWS: usize = 384;

/// Cost of sorting an entry, in multiply-adds.
const SORTED: usize = 100;

/// Computes `dx [n, cols] = dy [n, rows] · W`.
pub(super) fn dx<V: Value>(isa: Isa, weight: &Weight<'_, V>, dy: &[f32], dx: &mut [f32]) {
    let (rows, cols, n) = (weight.rows, weight.cols, dy.len() / weight.rows);
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    let panels = panels(weight);
    let tiles = cut_for_all(isa, weight.layout, n, team.threads);
    let shared = Shared::new(dx);
    for_each_part(tiles.len(), team, |at| {
        let tile = &tiles[at];
        let (width, vectors) = (width(isa, tile), tile.vectors);
        with_scratch((rows + cols) * width, |scratch| {
            let (dyt, dxt) = scratch.split_at_mut(rows * width);
            let packed = Shared::new(dyt);
            dispatch(isa, Pack { x: dy, cols: rows, tile, features: 0..rows, xt: packed });
            dxt.fill(0.0);
            let dy = Packed(dyt.as_ptr());
            let dx = Packed(dxt.as_mut_ptr());
            for panel in &panels {
                dispatch(isa, Multiply { panel, vectors, dy, dx });
            }
            // Tiles own disjoint tokens of `dx`.
            let yt = Shared::new(dxt);
            dispatch(isa, Unpack { yt, rows: cols, tile, range: 0..cols, y: shared });
        });
    });
}

/// Returns all panels of a weight.
pub(super) fn panels<V: Value>(weight: &Weight<'_, V>) -> Vec<Panel> {
    let per_column = weight.work().div_ceil(weight.cols).max(1);
    let rows = (ENTRIES * weight.rows).div_ceil(per_column).next_multiple_of(TILE_ROWS).min(ROWS);
    let panels: Vec<OnceLock<Panel>> =
        (0..weight.rows).step_by(rows).map(|_| OnceLock::new()).collect();
    for_each_part(panels.len(), team(SORTED * weight.work(), 0), |at| {
        let rows = at * rows..((at + 1) * rows).min(weight.rows);
        panels[at].get_or_init(|| Panel::of(weight, rows));
    });
    panels.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Entries of some rows, sorted by column.
pub(super) struct Panel {
    /// Start of the entries of every column, and the end of the last.
    starts: Vec<u32>,
    /// Row and value of every entry.
    entries: Vec<(u32, f32)>,
}

impl Panel {
    /// Sorts the entries of these rows by column.
    fn of<V: Value>(weight: &Weight<'_, V>, rows: Range<usize>) -> Self {
        // Counted two places ahead: while entries are placed, a column's end is the next one's start.
        let mut starts = vec![0; weight.cols + 2];
        weight.entries(rows.clone(), |_, column, _| starts[column + 2] += 1);
        for column in 0..weight.cols {
            starts[column + 2] += starts[column + 1];
        }
        let mut entries = vec![(0, 0.0); starts[weight.cols + 1] as usize];
        weight.entries(rows, |row, column, at| {
            let next = &mut starts[column + 1];
            entries[*next as usize] = (row as u32, weight.values[at].widen());
            *next += 1;
        });
        Self { starts, entries }
    }

    /// Returns the entries of a column.
    fn column(&self, column: usize) -> &[(u32, f32)] {
        &self.entries[self.starts[column] as usize..self.starts[column + 1] as usize]
    }
}

/// Computes `dx[column] += Σ value · dy[row]` for the entries of a panel.
pub(super) struct Multiply<'a, Y, X> {
    pub(super) panel: &'a Panel,
    /// Vectors of tokens of the tile.
    pub(super) vectors: usize,
    /// Gradients of every row of the weight.
    pub(super) dy: Y,
    /// Destination of the gradients of every column.
    pub(super) dx: X,
}

impl<Y: TileRows, X: TileRows> Work for Multiply<'_, Y, X> {
    type Output = ();

    #[inline(always)]
    unsafe fn run<S: Simd>(self) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match self.vectors {
                1 => self.columns::<S, 1>(),
                2 => self.columns::<S, 2>(),
                3 => self.columns::<S, 3>(),
                _ => self.columns::<S, 4>(),
            }
        }
    }
}

impl<Y: TileRows, X: TileRows> Multiply<'_, Y, X> {
    #[inline(always)]
    unsafe fn columns<S: Simd, const VECTORS: usize>(self) {
        let width = VECTORS * S::LANES;
        let columns = self.panel.starts.len() - 2;
        for column in 0..columns {
            let entries = self.panel.column(column);
            // SAFETY: there is a row of `width` floats for every row of the weight and every column of the panel.
            unsafe {
                let to = self.dx.row(column, width).cast_mut();
                // Two sums, to hide the latency of a multiply-add.
                let mut sums = [[S::zero(); VECTORS]; 2];
                for (j, sum) in sums[0].iter_mut().enumerate() {
                    *sum = S::load(to.add(j * S::LANES));
                }
                let mut pairs = entries.chunks_exact(2);
                for pair in &mut pairs {
                    self.add::<S, VECTORS>(pair[0], &mut sums[0]);
                    self.add::<S, VECTORS>(pair[1], &mut sums[1]);
                }
                for &entry in pairs.remainder() {
                    self.add::<S, VECTORS>(entry, &mut sums[0]);
                }
                for j in 0..VECTORS {
                    S::store(to.add(j * S::LANES), S::add(sums[0][j], sums[1][j]));
                }
            }
        }
    }

    /// Computes `sums += value · dyt[row]`.
    #[inline(always)]
    unsafe fn add<S: Simd, const VECTORS: usize>(
        &self,
        (row, value): (u32, f32),
        sums: &mut [S::F; VECTORS],
    ) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let dy = self.dy.row(row as usize, VECTORS * S::LANES);
            let w = S::splat(value);
            for (j, sum) in sums.iter_mut().enumerate() {
                *sum = S::fma(w, S::load(dy.add(j * S::LANES)), *sum);
            }
        }
    }
}
