//! Few tokens: every weight is read once. A unit is one row of the group and one share of its kept
//! columns, so that a line of values is one load of neighbouring units; the shares are added in shared
//! memory.

use cubecl::prelude::*;

use super::Grouped;
use crate::store::finish;
use crate::{Buffer, Operands, Store};

/// Tokens of a cube: the sums a unit holds.
pub(super) const TOKENS: usize = 16;
/// Units of a cube, as far as whole rows of a group fill them.
const UNITS: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    vector: usize,
    /// Shares of the kept columns.
    shares: usize,
    /// Tokens of this cube.
    tokens: usize,
    /// Whether rows have an order of their own.
    ordered: bool,
}

impl Tile {
    fn of(vector: usize, tokens: usize, ordered: bool) -> Self {
        let shares = (UNITS / vector).max(1);
        // A power of two keeps the number of kernels small; shared memory bounds it for wide cubes.
        let tokens = tokens.next_power_of_two().min(TOKENS).min(4096 / (vector * shares));
        Self { vector, shares, tokens, ordered }
    }

    fn dim(&self) -> CubeDim {
        CubeDim::new_1d((self.vector * self.shares) as u32)
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn decode_kernel<F: Float>(
    x: &[F],
    values: &[F],
    columns: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [F],
    tokens: usize,
    rows: usize,
    cols: usize,
    #[comptime] tile: Tile,
    #[comptime] store: Store,
    #[define(F)] _dtype: ElemType,
) {
    let vector = comptime!(tile.vector);
    let mut partial =
        Shared::<[f32]>::new_slice(comptime!(tile.vector * tile.shares * tile.tokens));
    let unit = UNIT_POS as usize;
    let (lane, share) = (unit % vector, unit / vector);
    let group = CUBE_POS_X as usize;
    let first = CUBE_POS_Y as usize * comptime!(tile.tokens);

    let mut sums = Array::<f32>::new(comptime!(tile.tokens));
    #[unroll]
    for t in 0..comptime!(tile.tokens) {
        sums[t] = 0.0;
    }
    let end = offsets[group + 1] as usize;
    let mut at = offsets[group] as usize + share;
    while at < end {
        let value = f32::cast_from(values[at * vector + lane]);
        let col = columns[at] as usize;
        #[unroll]
        for t in 0..comptime!(tile.tokens) {
            // A token past the last reads nothing of another: the checked load answers 0 there.
            sums[t] += value * f32::cast_from(x[(first + t) * cols + col]);
        }
        at += comptime!(tile.shares);
    }
    #[unroll]
    for t in 0..comptime!(tile.tokens) {
        partial[t * comptime!(tile.vector * tile.shares) + unit] = sums[t];
    }
    sync_cube();

    // One sum for each row of the group and token.
    let mut at = unit;
    while at < comptime!(tile.vector * tile.tokens) {
        let (lane, token) = (at % vector, at / vector);
        let place = group * vector + lane;
        if place < rows && first + token < tokens {
            let mut sum = 0.0f32;
            for share in 0..comptime!(tile.shares) {
                sum +=
                    partial[token * comptime!(tile.vector * tile.shares) + share * vector + lane];
            }
            let mut row = place;
            if comptime!(tile.ordered) {
                row = order[place] as usize;
            }
            y[(first + token) * rows + row] = finish::<F>(sum, bias, row, store);
        }
        at += comptime!(tile.vector * tile.shares);
    }
}

pub(super) fn launch(
    client: &Client,
    dtype: ElemType,
    weight: Grouped,
    operands: &Operands,
    y: &Buffer,
    tokens: usize,
    store: Store,
) {
    let Grouped { rows, cols, vector } = weight;
    let tile = Tile::of(vector, tokens, operands.order.len > 0);
    decode_kernel::launch(
        client,
        CubeCount::Static(rows.div_ceil(vector) as u32, tokens.div_ceil(tile.tokens) as u32, 1),
        tile.dim(),
        AddressType::U32,
        operands.x.arg(),
        operands.values.arg(),
        operands.index.arg(),
        operands.offsets.arg(),
        operands.order.arg(),
        operands.bias.arg(),
        y.arg(),
        tokens,
        rows,
        cols,
        tile,
        store,
        dtype,
    );
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::offline::Cuda,
    dtype: ElemType,
    vector: usize,
    tokens: usize,
    store: Store,
) -> impl cubecl::CubeKernel {
    let tile = Tile::of(vector, tokens, true);
    let (settings, properties, target) = cuda.start(tile.dim(), ExecutionMode::Checked);
    let b = crate::offline::buffer;
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
        (),
        (),
        (),
        tile,
        store,
        dtype,
    )
}
