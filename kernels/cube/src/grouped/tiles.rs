//! Kernel for many tokens: a dense product of tiles with a gathered reduction. A cube computes one group by 64
//! tokens. It stages 16 kept columns of the weight and the rows of `x` that they select, and every unit multiplies
//! four or more rows by four tokens in registers.

use cubecl::prelude::*;

use super::Grouped;
use crate::store::{bias_of, finish_all, row_of};
use crate::transpose::pitch;
use crate::{Buffer, Call, Store};

/// Tokens per cube.
const TOKENS: usize = 64;
/// Tokens per unit: one vector.
const LANES: usize = 4;
/// Kept columns staged at once.
const DEPTH: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    vector: usize,
    /// Rows per unit.
    rows: usize,
    /// Units along the rows of the group.
    units: usize,
    ordered: bool,
}

impl Tile {
    fn of(vector: usize, ordered: bool) -> Self {
        // Limits a cube to 256 units, which every runtime allows.
        let rows = vector.div_ceil(16).max(4);
        Self { vector, rows, units: vector.div_ceil(rows), ordered }
    }

    fn dim(&self) -> CubeDim {
        CubeDim::new_2d((TOKENS / LANES) as u32, self.units as u32)
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn tiles_kernel<F: Float>(
    x: &[Vector<F, Const<4>>],
    values: &[F],
    columns: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [Vector<F, Const<4>>],
    pitch: usize,
    rows: usize,
    #[comptime] tile: Tile,
    #[comptime] store: Store,
    #[define(F)] _dtype: ElemType,
) {
    let vector = comptime!(tile.vector);
    let height = comptime!(tile.rows * tile.units);
    let across = comptime!(TOKENS / LANES);
    let mut staged_x =
        Shared::<[Vector<F, Const<4>>]>::new_slice(comptime!(DEPTH * TOKENS / LANES));
    let mut staged_w = Shared::<[F]>::new_slice(comptime!(DEPTH * tile.rows * tile.units));

    let (lane, line) = (UNIT_POS_X as usize, UNIT_POS_Y as usize);
    let unit = UNIT_POS as usize;
    let units = comptime!(TOKENS / LANES * tile.units);
    let group = CUBE_POS_X as usize;
    let first = CUBE_POS_Y as usize * TOKENS;
    let (begin, end) = (offsets[group] as usize, offsets[group + 1] as usize);

    let mut sums = Array::<Vector<f32, Const<4>>>::new(comptime!(tile.rows));
    #[unroll]
    for r in 0..comptime!(tile.rows) {
        sums[r] = Vector::new(0.0);
    }

    let mut from = begin;
    while from < end {
        let mut at = unit;
        while at < comptime!(DEPTH * TOKENS / LANES) {
            let (kept, token) = (from + at / across, first + at % across * LANES);
            let mut value = Vector::new(F::new(0.0));
            if kept < end && token < pitch {
                value = x[(columns[kept] as usize * pitch + token) / LANES];
            }
            staged_x[at] = value;
            at += units;
        }
        let mut at = unit;
        while at < comptime!(DEPTH * tile.rows * tile.units) {
            let (kept, row) = (from + at / height, at % height);
            let mut value = F::new(0.0);
            if kept < end && row < vector {
                value = values[kept * vector + row];
            }
            staged_w[at] = value;
            at += units;
        }
        sync_cube();
        for k in 0..DEPTH {
            let x = Vector::<f32, Const<4>>::cast_from(staged_x[k * across + lane]);
            #[unroll]
            for r in 0..comptime!(tile.rows) {
                let w = f32::cast_from(staged_w[k * height + line * comptime!(tile.rows) + r]);
                sums[r] += x * Vector::new(w);
            }
        }
        sync_cube();
        from += DEPTH;
    }

    let token = first + lane * LANES;
    if token < pitch {
        #[unroll]
        for r in 0..comptime!(tile.rows) {
            let at = line * comptime!(tile.rows) + r;
            let place = group * vector + at;
            if at < vector && place < rows {
                let row = row_of(order, place, comptime!(tile.ordered));
                let bias = bias_of::<F>(bias, row, store);
                y[(row * pitch + token) / LANES] = finish_all::<F, Const<4>>(sums[r], bias, store);
            }
        }
    }
}

/// Computes `y [rows][pitch]` from `x [cols][pitch]`.
pub(super) fn launch(call: &Call<'_>, x: &Buffer, y: &Buffer, weight: Grouped) {
    let Call { client, dtype, operands, tokens, store, .. } = *call;
    let Grouped { rows, cols: _, vector } = weight;
    let tile = Tile::of(vector, call.ordered());
    tiles_kernel::launch(
        client,
        CubeCount::Static(rows.div_ceil(vector) as u32, tokens.div_ceil(TOKENS) as u32, 1),
        tile.dim(),
        AddressType::U32,
        x.words(LANES),
        operands.values.arg(),
        operands.index.arg(),
        operands.offsets.arg(),
        operands.order.arg(),
        operands.bias.arg(),
        y.words(LANES),
        pitch(tokens),
        rows,
        tile,
        store,
        dtype,
    );
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::stand_in::Cuda,
    dtype: ElemType,
    vector: usize,
    store: Store,
) -> impl cubecl::CubeKernel {
    let tile = Tile::of(vector, true);
    let (settings, properties, target) = cuda.start(tile.dim(), ExecutionMode::Checked);
    let b = crate::stand_in::buffer;
    tiles_kernel::TilesKernel::new(
        settings,
        properties,
        target,
        b(),
        b(),
        b(),
        b(),
        b(),
        b(),
        b(),
        (),
        (),
        tile,
        store,
        dtype,
    )
}
