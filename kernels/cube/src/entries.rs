//! The kept entries one by one, for gradients: [`scatter`] unpacks the values into a dense matrix,
//! [`sample`] computes `dyᵀ · x` at the kept entries only.

use cubecl::prelude::*;

use crate::balanced::{Balanced, Block, TILE_ROWS, column};
use crate::grouped::Grouped;
use crate::{Buffer, Operands};

/// Units of a cube.
const UNITS: usize = 256;

/// Which entries there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    /// One line of cubes for each group.
    Grouped(Grouped),
    /// One line of cubes for each tile of 16 rows.
    Balanced(Balanced),
}

impl Family {
    fn lines(self) -> usize {
        match self {
            Self::Grouped(w) => w.rows.div_ceil(w.vector),
            Self::Balanced(w) => w.rows.div_ceil(TILE_ROWS),
        }
    }

    fn kind(self, ordered: bool) -> Kind {
        match self {
            Self::Grouped(w) => Kind::Grouped { vector: w.vector, ordered },
            Self::Balanced(w) => Kind::Balanced(w.block()),
        }
    }

    fn shape(self) -> ShapeLaunch {
        match self {
            Self::Grouped(w) => ShapeLaunch::new(w.rows, w.cols, 0, 0),
            Self::Balanced(w) => ShapeLaunch::new(w.rows, w.cols, w.per_row, w.last()),
        }
    }
}

/// The part of a weight's shape that kernels are compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Grouped { vector: usize, ordered: bool },
    Balanced(Block),
}

/// The other part: of the matrix, and of a balanced row its kept weights and last block.
#[derive(CubeType, CubeLaunch)]
struct Shape {
    rows: usize,
    cols: usize,
    per_row: usize,
    last: usize,
}

/// Where entry number `entry` of a line stands: in the values, and in the matrix (a row past the last
/// for padding).
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
        Kind::Balanced(_) => shape.per_row * TILE_ROWS,
    }
}

#[cube]
#[allow(
    clippy::collapsible_if,
    reason = "one is decided when the kernel is compiled, one when it runs"
)]
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
            let at = line * vector + entry % vector;
            let mut row = at;
            if comptime!(ordered) {
                if at < shape.rows {
                    row = order[at] as usize;
                }
            }
            Place { value, row, col: index[value / vector] as usize }
        }
        Kind::Balanced(block) => {
            let value = line * shape.per_row * TILE_ROWS + entry;
            let col = column(index, value, entry / TILE_ROWS, shape.last, block);
            Place { value, row: line * TILE_ROWS + entry % TILE_ROWS, col }
        }
    }
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
    let mut entry = UNIT_POS as usize;
    let count = entries(offsets, line, &shape, kind);
    while entry < count {
        let place = place(index, offsets, order, line, entry, &shape, kind);
        if place.row < shape.rows && place.col < shape.cols {
            dense[place.row * shape.cols + place.col] = values[place.value];
        }
        entry += UNITS;
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn sample_kernel<F: Float>(
    x: &[F],
    dy: &[F],
    index: &[u32],
    offsets: &[u32],
    order: &[u32],
    dvalues: &mut [F],
    tokens: usize,
    shape: Shape,
    #[comptime] kind: Kind,
    #[define(F)] _dtype: ElemType,
) {
    let line = CUBE_POS_X as usize;
    let mut entry = UNIT_POS as usize;
    let count = entries(offsets, line, &shape, kind);
    while entry < count {
        let place = place(index, offsets, order, line, entry, &shape, kind);
        let mut sum = 0.0f32;
        if place.row < shape.rows && place.col < shape.cols {
            for token in 0..tokens {
                sum += f32::cast_from(dy[token * shape.rows + place.row])
                    * f32::cast_from(x[token * shape.cols + place.col]);
            }
        }
        dvalues[place.value] = F::cast_from(sum);
        entry += UNITS;
    }
}

/// Writes the kept values into `dense [rows, cols]`, which holds zeros before.
pub fn scatter(
    client: &Client,
    dtype: ElemType,
    family: Family,
    operands: &Operands,
    dense: &Buffer,
) {
    scatter_kernel::launch(
        client,
        CubeCount::Static(family.lines() as u32, 1, 1),
        CubeDim::new_1d(UNITS as u32),
        AddressType::U32,
        operands.values.arg(),
        index(family, &operands.index),
        operands.offsets.arg(),
        operands.order.arg(),
        dense.arg(),
        family.shape(),
        family.kind(operands.order.len > 0),
        dtype,
    );
}

/// `dvalues[e] = Σ dy[token, row(e)] · x[token, col(e)]`, zero for padding; `operands.values` is not
/// read.
pub fn sample(
    client: &Client,
    dtype: ElemType,
    family: Family,
    operands: &Operands,
    dy: &Buffer,
    dvalues: &Buffer,
    tokens: usize,
) {
    sample_kernel::launch(
        client,
        CubeCount::Static(family.lines() as u32, 1, 1),
        CubeDim::new_1d(UNITS as u32),
        AddressType::U32,
        operands.x.arg(),
        dy.arg(),
        index(family, &operands.index),
        operands.offsets.arg(),
        operands.order.arg(),
        dvalues.arg(),
        tokens,
        family.shape(),
        family.kind(operands.order.len > 0),
        dtype,
    );
}

fn index(family: Family, index: &Buffer) -> BufferArg {
    match family {
        Family::Grouped(_) => index.arg(),
        Family::Balanced(_) => index.words(4),
    }
}
