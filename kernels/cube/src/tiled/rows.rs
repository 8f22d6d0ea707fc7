//! Kernel for many tokens: a unit computes one row by four tokens. The 16 units of a row read 64 adjacent tokens
//! of each kept column, and the rows of a tile share cache lines of the same columns.

use cubecl::prelude::*;

use super::{Kind, TILE_ROWS, Tile, Tiled, column, is_padding};
use crate::store::{bias_of, finish_all, row_of};
use crate::transpose::pitch;
use crate::{Buffer, Call, Store};

/// Tokens per cube.
const TOKENS: usize = 64;
/// Tokens per unit: one vector.
const LANES: usize = 4;

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn rows_kernel<F: Float>(
    x: &[Vector<F, Const<4>>],
    values: &[F],
    index: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [Vector<F, Const<4>>],
    pitch: usize,
    rows: usize,
    cols: usize,
    per_row: usize,
    last: usize,
    #[comptime] kind: Kind,
    #[comptime] store: Store,
    #[define(F)] _dtype: ElemType,
) {
    let (token, lane) =
        (CUBE_POS_Y as usize * TOKENS + UNIT_POS_X as usize * LANES, UNIT_POS_Y as usize);
    let number = CUBE_POS_X as usize;
    let place = number * TILE_ROWS + lane;
    if token < pitch && place < rows {
        let tile = Tile::of(offsets, number, per_row, kind);
        let mut sum = Vector::<f32, Const<4>>::new(0.0);
        for slot in 0..tile.slots {
            let at = (tile.first + slot) * TILE_ROWS + lane;
            let value = f32::cast_from(values[at]);
            let col = column(index, at, slot, last, kind);
            if !is_padding(col, cols, kind) {
                let x = Vector::<f32, Const<4>>::cast_from(x[(col * pitch + token) / LANES]);
                sum += x * Vector::new(value);
            }
        }
        let row = row_of(order, place, comptime!(kind == Kind::Listed));
        let bias = bias_of::<F>(bias, row, store);
        y[(row * pitch + token) / LANES] = finish_all::<F, Const<4>>(sum, bias, store);
    }
}

fn dim() -> CubeDim {
    CubeDim::new_2d((TOKENS / LANES) as u32, TILE_ROWS as u32)
}

/// Computes `y [rows][pitch]` from `x [cols][pitch]`.
pub(super) fn launch(call: &Call<'_>, x: &Buffer, y: &Buffer, weight: Tiled) {
    let Call { client, dtype, operands, tokens, store, .. } = *call;
    rows_kernel::launch(
        client,
        CubeCount::Static(weight.tiles() as u32, tokens.div_ceil(TOKENS) as u32, 1),
        dim(),
        AddressType::U32,
        x.words(LANES),
        operands.values.arg(),
        weight.index(&operands.index),
        operands.offsets.arg(),
        operands.order.arg(),
        operands.bias.arg(),
        y.words(LANES),
        pitch(tokens),
        weight.rows,
        weight.cols,
        weight.per_tile(),
        weight.last(),
        weight.kind(),
        store,
        dtype,
    );
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::stand_in::Cuda,
    dtype: ElemType,
    weight: Tiled,
    store: Store,
) -> impl cubecl::CubeKernel {
    let (settings, properties, target) = cuda.start(dim(), ExecutionMode::Checked);
    let b = crate::stand_in::buffer;
    rows_kernel::RowsKernel::new(
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
        (),
        (),
        (),
        weight.kind(),
        store,
        dtype,
    )
}
