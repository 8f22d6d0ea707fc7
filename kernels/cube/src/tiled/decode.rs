//! Kernel for few tokens, which reads every weight once per 16 tokens. A unit handles one of the 16 rows of a tile and one
//! share of its slots; adjacent units read adjacent values and indices. If the tiles alone do not fill the device, the
//! slots are split into slices, which are added in a second pass.

use cubecl::prelude::*;

use super::{Kind, TILE_ROWS, Tile, Tiled, column, is_padding};
use crate::reduce::{Cubes, Partial, reduce};
use crate::store::{finish, row_of};
use crate::{Call, Store};

/// Maximum number of tokens per cube: the sums that a unit holds.
pub(super) const TOKENS: usize = 16;
/// Slots that a unit reads at once, so that it does not wait for memory after each one.
const DEPTH: usize = 4;
/// Number of shares of a row's slots.
const SHARES: usize = 16;

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn decode_kernel<F: Float>(
    x: &[F],
    values: &[F],
    index: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [F],
    sums_of_slices: &mut [f32],
    tokens: usize,
    rows: usize,
    cols: usize,
    per_row: usize,
    last: usize,
    #[comptime] kind: Kind,
    #[comptime] per_cube: usize,
    #[comptime] sliced: bool,
    #[comptime] store: Store,
    #[define(F)] _dtype: ElemType,
) {
    let units = comptime!(TILE_ROWS * SHARES);
    let mut partial = Shared::<[f32]>::new_slice(comptime!(TILE_ROWS * SHARES * per_cube));
    let unit = UNIT_POS as usize;
    let (lane, share) = (unit % TILE_ROWS, unit / TILE_ROWS);
    let number = CUBE_POS_X as usize;
    let tile = Tile::of(offsets, number, per_row, kind);
    let first = CUBE_POS_Y as usize * per_cube;

    let mut sums = Array::<f32>::new(per_cube);
    #[unroll]
    for t in 0..per_cube {
        sums[t] = 0.0;
    }
    let (slice, slices) = (CUBE_POS_Z as usize, CUBE_COUNT_Z as usize);
    let mut slot = slice * SHARES + share;
    let step = slices * SHARES;
    let mut value = Array::<f32>::new(DEPTH);
    let mut col = Array::<usize>::new(DEPTH);
    while slot < tile.slots {
        #[unroll]
        for d in 0..DEPTH {
            // Past the end, the first slot is read again but not added.
            let here = select(slot + d * step < tile.slots, slot + d * step, slot);
            let at = (tile.first + here) * TILE_ROWS + lane;
            value[d] = f32::cast_from(values[at]);
            col[d] = column(index, at, here, last, kind);
        }
        #[unroll]
        for d in 0..DEPTH {
            if slot + d * step < tile.slots && !is_padding(col[d], cols, kind) {
                #[unroll]
                for t in 0..per_cube {
                    // Sums of tokens past the last are not stored, but their reads must stay in bounds.
                    let token = min(first + t, tokens - 1);
                    sums[t] += value[d] * f32::cast_from(x[token * cols + col[d]]);
                }
            }
        }
        slot += DEPTH * step;
    }
    #[unroll]
    for t in 0..per_cube {
        partial[t * units + unit] = sums[t];
    }
    sync_cube();

    let mut at = unit;
    while at < comptime!(TILE_ROWS * per_cube) {
        let (place, token) = (number * TILE_ROWS + at % TILE_ROWS, at / TILE_ROWS);
        if place < rows && first + token < tokens {
            let mut sum = 0.0f32;
            for share in 0..SHARES {
                sum += partial[token * units + share * TILE_ROWS + at % TILE_ROWS];
            }
            if comptime!(sliced) {
                let places = CUBE_COUNT_X as usize * TILE_ROWS;
                sums_of_slices[(slice * tokens + first + token) * places + place] = sum;
            } else {
                let row = row_of(order, place, comptime!(kind == Kind::Listed));
                y[(first + token) * rows + row] = finish::<F>(sum, bias, row, store);
            }
        }
        at += units;
    }
}

/// Returns the number of tokens per cube; a power of two keeps the number of kernels small.
fn per_cube(tokens: usize) -> usize {
    tokens.next_power_of_two().min(TOKENS)
}

fn dim() -> CubeDim {
    CubeDim::new_1d((TILE_ROWS * SHARES) as u32)
}

/// Launches the kernel with the given number of `slices`, or with as many as fill the device.
pub(super) fn launch(call: &Call<'_>, weight: Tiled, slices: Option<usize>) {
    let Call { client, dtype, operands, y, tokens, store, .. } = *call;
    let per_cube = per_cube(tokens);
    let (tiles, across) = (weight.tiles(), tokens.div_ceil(per_cube));
    let room = (tokens, tiles * TILE_ROWS);
    let threads = TILE_ROWS * SHARES;
    let cubes = Cubes {
        count: tiles * across,
        threads,
        shared: threads * per_cube * size_of::<f32>(),
        slices: weight.per_tile() / SHARES,
    };
    let partial = Partial::of(client, slices, &cubes, room);
    let slices = partial.as_ref().map_or(1, |partial| partial.slices);
    decode_kernel::launch(
        client,
        CubeCount::Static(tiles as u32, across as u32, slices as u32),
        dim(),
        AddressType::U32,
        operands.x.arg(),
        operands.values.arg(),
        weight.index(&operands.index),
        operands.offsets.arg(),
        operands.order.arg(),
        operands.bias.arg(),
        y.arg(),
        partial.as_ref().map_or(y, |partial| &partial.sums).arg(),
        tokens,
        weight.rows,
        weight.cols,
        weight.per_tile(),
        weight.last(),
        weight.kind(),
        per_cube,
        partial.is_some(),
        store,
        dtype,
    );
    if let Some(partial) = partial {
        reduce(call, &partial, weight.rows);
    }
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::stand_in::Cuda,
    dtype: ElemType,
    weight: Tiled,
    tokens: usize,
    store: Store,
) -> impl cubecl::CubeKernel {
    let (settings, properties, target) = cuda.start(dim(), ExecutionMode::Checked);
    let b = crate::stand_in::buffer;
    decode_kernel::DecodeKernel::new(
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
        b(),
        (),
        (),
        (),
        (),
        (),
        weight.kind(),
        per_cube(tokens),
        true,
        store,
        dtype,
    )
}
