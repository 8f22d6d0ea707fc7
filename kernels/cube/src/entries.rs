//! Accesses the kept entries one by one, for gradients: [`scatter`] unpacks the values into a dense matrix, and
//! [`gather`] reads the kept entries of a dense matrix.

use cubecl::prelude::*;

use crate::grouped::Grouped;
use crate::store::row_of;
use crate::tiled::{self, TILE_ROWS, Tile, Tiled, column};
use crate::{Buffer, Operands};

/// Units per cube.
const UNITS: usize = 256;

/// Family and shape of the packed weight that holds the entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// Grouped weight: one line of cubes for each group.
    Grouped(Grouped),
    /// Rows in tiles: one line of cubes for each tile of 16 rows.
    Tiled(Tiled),
}

impl Family {
    fn lines(self) -> usize {
        match self {
            Self::Grouped(w) => w.rows.div_ceil(w.vector),
            Self::Tiled(w) => w.tiles(),
        }
    }

    /// Returns the cube count, with enough cubes per line that each unit handles about eight of all `entries`.
    fn cubes(self, entries: usize) -> CubeCount {
        let across = entries.div_ceil(self.lines().max(1)).div_ceil(8 * UNITS);
        CubeCount::Static(self.lines() as u32, across.clamp(1, 1 << 10) as u32, 1)
    }

    fn kind(self, ordered: bool) -> Kind {
        match self {
            Self::Grouped(w) => Kind::Grouped { vector: w.vector, ordered },
            Self::Tiled(w) => Kind::Tiled(w.kind()),
        }
    }

    fn shape(self) -> ShapeLaunch {
        match self {
            Self::Grouped(w) => ShapeLaunch::new(w.rows, w.cols, 0, 0),
            Self::Tiled(w) => ShapeLaunch::new(w.rows, w.cols, w.per_tile(), w.last()),
        }
    }

    fn index(self, index: &Buffer) -> BufferArg {
        match self {
            Self::Grouped(_) => index.arg(),
            Self::Tiled(w) => w.index(index),
        }
    }
}

/// Part of a weight's shape that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Grouped { vector: usize, ordered: bool },
    Tiled(tiled::Kind),
}

/// Run-time part of a weight's shape: the size of the matrix and, for balanced weights, the kept weights per row and the index of
/// the last block.
#[derive(CubeType, CubeLaunch)]
struct Shape {
    rows: usize,
    cols: usize,
    per_row: usize,
    last: usize,
}

/// Position of one entry of a line: in the values, and in the matrix (a row past the last for padding).
#[derive(CubeType)]
struct Place {
    value: usize,
    row: usize,
    col: usize,
}

#[cube]
fn entries(offsets: &[u32], line: usize, shape: &Shape, #[comptime] kind: Kind) -> usize {
    match comptime!(kind) {
        Kind::Grouped { vector, ordered: _ } => {
            (offsets[line + 1] - offsets[line]) as usize * vector
        }
        Kind::Tiled(kind) => Tile::of(offsets, line, shape.per_row, kind).slots * TILE_ROWS,
    }
}

#[cube]
fn place(
    index: &[u32],
    offsets: &[u32],
    order: &[u32],
    line: usize,
    entry: usize,
    shape: &Shape,
    #[comptime] kind: Kind,
) -> Place {
    match comptime!(kind) {
        Kind::Grouped { vector, ordered } => {
            let value = offsets[line] as usize * vector + entry;
            let row = row_at(order, line * vector + entry % vector, shape, ordered);
            Place { value, row, col: index[value / vector] as usize }
        }
        Kind::Tiled(kind) => {
            let tile = Tile::of(offsets, line, shape.per_row, kind);
            let value = tile.first * TILE_ROWS + entry;
            let at = line * TILE_ROWS + entry % TILE_ROWS;
            let row = row_at(order, at, shape, comptime!(kind == tiled::Kind::Listed));
            let col = column(index, value, entry / TILE_ROWS, shape.last, kind);
            Place { value, row, col }
        }
    }
}

/// Returns the row at place `at`, which may be past the last.
#[cube]
fn row_at(order: &[u32], at: usize, shape: &Shape, #[comptime] ordered: bool) -> usize {
    let mut row = at;
    if at < shape.rows {
        row = row_of(order, at, ordered);
    }
    row
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn scatter_kernel<F: Float>(
    values: &[F],
    index: &[u32],
    offsets: &[u32],
    order: &[u32],
    dense: &mut [F],
    shape: Shape,
    #[comptime] kind: Kind,
    #[define(F)] _dtype: ElemType,
) {
    let line = CUBE_POS_X as usize;
    let mut entry = (CUBE_POS_Y * CUBE_DIM_X + UNIT_POS) as usize;
    let count = entries(offsets, line, &shape, kind);
    while entry < count {
        let place = place(index, offsets, order, line, entry, &shape, kind);
        if place.row < shape.rows && place.col < shape.cols {
            dense[place.row * shape.cols + place.col] = values[place.value];
        }
        entry += (CUBE_COUNT_Y * CUBE_DIM_X) as usize;
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn gather_kernel<F: Float>(
    dense: &[F],
    index: &[u32],
    offsets: &[u32],
    order: &[u32],
    values: &mut [F],
    shape: Shape,
    #[comptime] kind: Kind,
    #[define(F)] _dtype: ElemType,
) {
    let line = CUBE_POS_X as usize;
    let mut entry = (CUBE_POS_Y * CUBE_DIM_X + UNIT_POS) as usize;
    let count = entries(offsets, line, &shape, kind);
    while entry < count {
        let place = place(index, offsets, order, line, entry, &shape, kind);
        let mut value = F::new(0.0);
        if place.row < shape.rows && place.col < shape.cols {
            value = dense[place.row * shape.cols + place.col];
        }
        values[place.value] = value;
        entry += (CUBE_COUNT_Y * CUBE_DIM_X) as usize;
    }
}

/// Writes the kept values into `dense [rows, cols]`, which must be zero-filled beforehand.
pub fn scatter(
    client: &Client,
    dtype: ElemType,
    family: Family,
    operands: &Operands,
    dense: &Buffer,
) {
    scatter_kernel::launch(
        client,
        family.cubes(operands.values.len),
        CubeDim::new_1d(UNITS as u32),
        AddressType::U32,
        operands.values.arg(),
        family.index(&operands.index),
        operands.offsets.arg(),
        operands.order.arg(),
        dense.arg(),
        family.shape(),
        family.kind(operands.order.len > 0),
        dtype,
    );
}

/// Reads the kept entries of `dense [rows, cols]` into `values`, writing zeros for padding; `operands.values` is
/// not read.
pub fn gather(
    client: &Client,
    dtype: ElemType,
    family: Family,
    operands: &Operands,
    dense: &Buffer,
    values: &Buffer,
) {
    gather_kernel::launch(
        client,
        family.cubes(values.len),
        CubeDim::new_1d(UNITS as u32),
        AddressType::U32,
        dense.arg(),
        family.index(&operands.index),
        operands.offsets.arg(),
        operands.order.arg(),
        values.arg(),
        family.shape(),
        family.kind(operands.order.len > 0),
        dtype,
    );
}
