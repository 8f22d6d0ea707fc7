//! Gradient of the input through weights whose rows share no columns.
//!
//! A weight is cut into panels of some rows and columns. The entries of a panel are sorted by column, which takes a few
//! cycles each and serves all tokens, so that sums of a column stay in registers: adding to the columns in the order of rows
//! would load and store a sum for every entry.

use std::ops::Range;

use crate::Layout;
use crate::layout::TILE_ROWS;
use crate::parallel::{Shared, for_each_part, part, team, with_scratch};
use crate::simd::{Isa, Simd, Work, dispatch};
use crate::tiles::{Pack, Packed, TileRows, Unpack, cut, width};
use crate::{Value, Weight};

/// Columns of a panel, or a little more if blocks are longer.
const COLUMNS: usize = 64;

/// Entries per column that a panel should have on average, so that its sums are loaded and stored seldom.
const ENTRIES: usize = 12;

/// Most rows of a panel, so that their gradients stay in the first-level cache while all columns use them.
const ROWS: usize = 96;

/// Tokens whose gradients are packed at a time.
const TOKENS: usize = 1024;

/// Parts of a tile that threads pack.
const PACKED_PARTS: usize = 4;

/// Computes `dx [n, cols] = dy [n, rows] · W`.
pub(super) fn dx<V: Value>(isa: Isa, weight: &Weight<'_, V>, dy: &[f32], dx: &mut [f32]) {
    let (rows, cols, n) = (weight.rows, weight.cols, dy.len() / weight.rows);
    let team = team(weight.work() * n, size_of::<V>() * weight.work());
    let cuts = Cuts::of(weight);
    let shared = Shared::new(dx);
    for first in (0..n).step_by(TOKENS) {
        let tokens = TOKENS.min(n - first);
        let mut tiles = cut(isa, weight.layout, tokens, 1);
        tiles.iter_mut().for_each(|tile| tile.first += first);
        let widths: Vec<usize> = tiles.iter().map(|tile| width(isa, tile)).collect();
        let all: usize = widths.iter().sum();
        // Floats of a row before each tile.
        let starts: Vec<usize> = widths
            .iter()
            .scan(0, |sum, width| Some(std::mem::replace(sum, *sum + width)))
            .collect();
        with_scratch(rows * all, |dyt| {
            let packed = Shared::new(dyt);
            for_each_part(tiles.len() * PACKED_PARTS, team, |at| {
                let tile = at / PACKED_PARTS;
                let features = part(rows, at % PACKED_PARTS, PACKED_PARTS);
                // SAFETY: every tile has its own rows.
                let xt = unsafe { packed.at(rows * starts[tile]) };
                dispatch(isa, Pack { x: dy, cols: rows, tile: &tiles[tile], features, xt });
            });
            let dyt = &*dyt;
            for_each_part(cuts.columns.len(), team, |at| {
                let columns = cuts.columns[at].clone();
                with_scratch(columns.len() * all, |dxt| {
                    dxt.fill(0.0);
                    let mut panel = Panel::default();
                    for first in (0..rows).step_by(cuts.rows) {
                        let panel_rows = first..(first + cuts.rows).min(rows);
                        panel.fill(weight, &cuts, panel_rows, &columns);
                        for (tile, start) in tiles.iter().zip(&starts) {
                            let dy = Packed(dyt[rows * start..].as_ptr());
                            let dx = Packed(dxt[columns.len() * start..].as_mut_ptr());
                            let (panel, vectors) = (&panel, tile.vectors);
                            dispatch(isa, Multiply { panel, vectors, dy, dx });
                        }
                    }
                    for (tile, start) in tiles.iter().zip(&starts) {
                        let yt = Shared::new(&mut dxt[columns.len() * start..]);
                        // SAFETY: threads own their columns of every token.
                        let y = unsafe { shared.at(columns.start) };
                        let range = 0..columns.len();
                        dispatch(isa, Unpack { yt, rows: cols, tile, range, y });
                    }
                });
            });
        });
    }
}

/// Returns all panels of a weight, each with its first column: for products in parts whose tokens are too few to sort a panel
/// for each.
pub(super) fn panels<V: Value>(weight: &Weight<'_, V>) -> Vec<(usize, Panel)> {
    let cuts = Cuts::of(weight);
    let mut panels = Vec::new();
    for columns in &cuts.columns {
        for first in (0..weight.rows).step_by(cuts.rows) {
            let mut panel = Panel::default();
            panel.fill(weight, &cuts, first..(first + cuts.rows).min(weight.rows), columns);
            panels.push((columns.start, panel));
        }
    }
    panels
}

/// Rows and columns of the panels of a weight.
struct Cuts {
    rows: usize,
    columns: Vec<Range<usize>>,
    /// `true` if the columns of every row rise, so that those of a panel can be searched for.
    sorted: bool,
}

impl Cuts {
    fn of<V: Value>(weight: &Weight<'_, V>) -> Self {
        let (block, sorted) = match weight.layout {
            Layout::Balanced { block, .. } => (block, true),
            _ => (1, (0..weight.rows).all(|row| row_columns(weight, row).is_sorted())),
        };
        let step = (COLUMNS / block).max(1) * block;
        let columns = (0..weight.cols).step_by(step);
        let columns = columns.map(|from| from..(from + step).min(weight.cols)).collect();
        let per_column = weight.work().div_ceil(weight.cols).max(1);
        let rows = (ENTRIES * weight.rows).div_ceil(per_column).next_multiple_of(TILE_ROWS);
        Self { rows: rows.min(ROWS), columns, sorted }
    }
}

fn row_columns<'a, V>(weight: &Weight<'a, V>, row: usize) -> &'a [i32] {
    &weight.columns[weight.offsets[row] as usize..weight.offsets[row + 1] as usize]
}

/// Entries of a panel, column after column.
#[derive(Default)]
pub(super) struct Panel {
    /// Start of the entries of every column, and the end of the last.
    starts: Vec<usize>,
    /// Row and value of every entry.
    entries: Vec<(u32, f32)>,
}

impl Panel {
    /// Sorts the entries of these rows and columns by column.
    fn fill<V: Value>(
        &mut self,
        weight: &Weight<'_, V>,
        cuts: &Cuts,
        rows: Range<usize>,
        columns: &Range<usize>,
    ) {
        let Self { starts, entries } = self;
        // Counted two places further on: while entries are placed, a column's end is the next one's start.
        starts.clear();
        starts.resize(columns.len() + 2, 0);
        each_entry(weight, cuts, rows.clone(), columns, |_, column, _| starts[column + 2] += 1);
        for column in 0..columns.len() {
            starts[column + 2] += starts[column + 1];
        }
        entries.resize(starts[columns.len() + 1], (0, 0.0));
        each_entry(weight, cuts, rows, columns, |row, column, at| {
            let next = &mut starts[column + 1];
            entries[*next] = (row as u32, weight.values[at].widen());
            *next += 1;
        });
    }

    /// Returns the entries of a column.
    fn column(&self, column: usize) -> &[(u32, f32)] {
        &self.entries[self.starts[column]..self.starts[column + 1]]
    }
}

/// Calls `each(row, column of the panel, index of the value)` for the entries of a panel, row after row.
#[inline(always)]
fn each_entry<V: Value>(
    weight: &Weight<'_, V>,
    cuts: &Cuts,
    rows: Range<usize>,
    columns: &Range<usize>,
    mut each: impl FnMut(usize, usize, usize),
) {
    if let Layout::Balanced { block, kept } = weight.layout {
        let (per_row, blocks) = (weight.kept_per_row(), weight.cols.div_ceil(block));
        let blocks_of = columns.start / block..columns.end.div_ceil(block);
        for row in rows {
            let first = (row / TILE_ROWS) * per_row * TILE_ROWS + row % TILE_ROWS;
            for b in blocks_of.clone() {
                let start = b * block - columns.start;
                // A byte past its block belongs to no weight.
                let last = block.min(columns.len() - start) - 1;
                let end = if b + 1 == blocks { per_row } else { (b + 1) * kept };
                for slot in b * kept..end {
                    let at = first + slot * TILE_ROWS;
                    each(row, start + usize::from(weight.in_block[at]).min(last), at);
                }
            }
        }
        return;
    }
    let (start, end) = (columns.start as i32, columns.end as i32);
    for row in rows {
        let (all, first) = (row_columns(weight, row), weight.offsets[row] as usize);
        let from = if cuts.sorted { all.partition_point(|&column| column < start) } else { 0 };
        for (at, &column) in all.iter().enumerate().skip(from) {
            if column < end && column >= start {
                each(row, (column - start) as usize, first + at);
            } else if cuts.sorted {
                break;
            }
        }
    }
}

/// Computes `dx[column] += Σ value · dy[row]` for the entries of a panel.
pub(super) struct Multiply<'a, Y, X> {
    pub(super) panel: &'a Panel,
    /// Vectors of tokens of the tile.
    pub(super) vectors: usize,
    /// Gradients of every row of the weight.
    pub(super) dy: Y,
    /// Gradients of every column of the panel, to write.
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
