//! The kept entries one by one, for gradients: [`scatter`] unpacks the values into a dense matrix,
//! [`sample`] computes `dyᵀ · x` at the kept entries only.

use cubecl::prelude::*;

use crate::balanced::{Balanced, TILE_ROWS, column};
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
    fn shape(self) -> (usize, usize) {
        match self {
            Self::Grouped(w) => (w.rows, w.cols),
            Self::Balanced(w) => (w.rows, w.cols),
        }
    }

    fn lines(self) -> usize {
        match self {
            Self::Grouped(w) => w.rows.div_ceil(w.vector),
            Self::Balanced(w) => w.rows.div_ceil(TILE_ROWS),
        }
    }
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
fn entries(offsets: &[u32], line: usize, #[comptime] family: Family) -> usize {
    match comptime!(family) {
        Family::Grouped(w) => {
            (offsets[line + 1] - offsets[line]) as usize * comptime!(w.vector)
        }
        Family::Balanced(w) => comptime!(w.per_row * TILE_ROWS).runtime(),
    }
}

#[cube]
fn place(
    index: &[u32],
    offsets: &[u32],
    order: &[u32],
    line: usize,
    entry: usize,
    #[comptime] family: Family,
    #[comptime] ordered: bool,
) -> Place {
    match comptime!(family) {
        Family::Grouped(w) => {
            let value = offsets[line] as usize * comptime!(w.vector) + entry;
            let at = line * comptime!(w.vector) + entry % comptime!(w.vector);
            let mut row = at;
            if comptime!(ordered) {
                if at < comptime!(w.rows) {
                    row = order[at] as usize;
                }
            }
            Place { value, row, col: index[value / comptime!(w.vector)] as usize }
        }
        Family::Balanced(w) => {
            let value = line * comptime!(w.per_row * TILE_ROWS) + entry;
            let col = column(index, value, entry / TILE_ROWS, w);
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
    #[comptime] family: Family,
    #[comptime] ordered: bool,
    #[define(F)] _dtype: ElemType,
) {
    let (rows, cols) = comptime!(family.shape());
    let line = CUBE_POS_X as usize;
    let mut entry = UNIT_POS as usize;
    let count = entries(offsets, line, family);
    while entry < count {
        let place = place(index, offsets, order, line, entry, family, ordered);
        if place.row < rows && place.col < cols {
            dense[place.row * cols + place.col] = values[place.value];
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
    #[comptime] family: Family,
    #[comptime] ordered: bool,
    #[define(F)] _dtype: ElemType,
) {
    let (rows, cols) = comptime!(family.shape());
    let line = CUBE_POS_X as usize;
    let mut entry = UNIT_POS as usize;
    let count = entries(offsets, line, family);
    while entry < count {
        let place = place(index, offsets, order, line, entry, family, ordered);
        let mut sum = 0.0f32;
        if place.row < rows && place.col < cols {
            for token in 0..tokens {
                sum += f32::cast_from(dy[token * rows + place.row])
                    * f32::cast_from(x[token * cols + place.col]);
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
        family,
        operands.order.len > 0,
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
        family,
        operands.order.len > 0,
        dtype,
    );
}

fn index(family: Family, index: &Buffer) -> BufferArg {
    match family {
        Family::Grouped(_) => index.arg(),
        Family::Balanced(_) => index.words(4),
    }
}
