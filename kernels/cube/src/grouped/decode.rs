//! Kernel for few tokens, which reads every weight once. A unit handles a few rows of the group and one share of
//! its kept columns, so that adjacent units read adjacent values. Shares are added in shared memory; if the groups
//! alone do not fill the device, their columns are split into slices, which are added in a second pass.

use cubecl::prelude::*;

use super::Grouped;
use crate::reduce::{Cubes, Partial, reduce};
use crate::store::{finish, row_of};
use crate::{Call, Store};

/// Maximum number of tokens per cube: the sums that a unit holds for each of its rows.
pub(super) const TOKENS: usize = 16;
/// Maximum number of units per cube; the actual number is a multiple of the units along a group's rows.
const UNITS: usize = 256;
/// Columns that a unit reads at once, so that it does not wait for memory after each one.
const DEPTH: usize = 4;
/// Maximum number of sums that a cube adds in shared memory: 16 KB, which every runtime has.
const SUMS: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Tile {
    vector: usize,
    /// Rows per unit, loaded as one vector.
    width: usize,
    /// Number of shares of the kept columns.
    shares: usize,
    /// Tokens per cube.
    tokens: usize,
    /// `true` if rows are permuted.
    ordered: bool,
    /// `true` if sums are those of a single slice.
    sliced: bool,
}

impl Tile {
    fn of(vector: usize, tokens: usize, ordered: bool, sliced: bool) -> Self {
        let width = if vector.is_multiple_of(4) { 4 } else { 1 };
        // A power of two keeps the number of kernels small.
        let tokens = tokens.next_power_of_two().min(TOKENS);
        let shares = (UNITS * width / vector).min(SUMS / (vector * tokens)).max(1);
        Self { vector, width, shares, tokens, ordered, sliced }
    }

    /// Returns the number of units along the rows of a group.
    fn lanes(&self) -> usize {
        self.vector / self.width
    }

    fn units(&self) -> usize {
        self.lanes() * self.shares
    }

    fn dim(&self) -> CubeDim {
        CubeDim::new_1d(self.units() as u32)
    }
}

#[cube(launch, address_type = "dynamic")]
#[allow(clippy::too_many_arguments)]
fn decode_kernel<F: Float, N: Size>(
    x: &[F],
    values: &[Vector<F, N>],
    columns: &[u32],
    offsets: &[u32],
    order: &[u32],
    bias: &[F],
    y: &mut [F],
    sums_of_slices: &mut [f32],
    tokens: usize,
    rows: usize,
    cols: usize,
    #[comptime] tile: Tile,
    #[comptime] store: Store,
    #[define(F)] _dtype: ElemType,
) {
    let (vector, lanes) = comptime!((tile.vector, tile.lanes()));
    let mut partial =
        Shared::<[f32]>::new_slice(comptime!(tile.vector * tile.shares * tile.tokens));
    let unit = UNIT_POS as usize;
    let (lane, share) = (unit % lanes, unit / lanes);
    let group = CUBE_POS_X as usize;
    let first = CUBE_POS_Y as usize * comptime!(tile.tokens);
    let (slice, slices) = (CUBE_POS_Z as usize, CUBE_COUNT_Z as usize);

    let mut sums = Array::<Vector<f32, N>>::new(comptime!(tile.tokens));
    #[unroll]
    for t in 0..comptime!(tile.tokens) {
        sums[t] = Vector::new(0.0);
    }
    let end = offsets[group + 1] as usize;
    let mut at = offsets[group] as usize + slice * comptime!(tile.shares) + share;
    let step = slices * comptime!(tile.shares);
    let mut value = Array::<Vector<f32, N>>::new(DEPTH);
    let mut col = Array::<usize>::new(DEPTH);
    while at < end {
        #[unroll]
        for d in 0..DEPTH {
            // Past the end, the first column is read again but not added.
            let here = select(at + d * step < end, at + d * step, at);
            value[d] = Vector::<f32, N>::cast_from(values[here * lanes + lane]);
            col[d] = columns[here] as usize;
        }
        #[unroll]
        for d in 0..DEPTH {
            if at + d * step < end {
                #[unroll]
                for t in 0..comptime!(tile.tokens) {
                    // Sums of tokens past the last are not stored, but their reads must stay in bounds.
                    let token = min(first + t, tokens - 1);
                    sums[t] += value[d] * Vector::new(f32::cast_from(x[token * cols + col[d]]));
                }
            }
        }
        at += DEPTH * step;
    }
    #[unroll]
    for t in 0..comptime!(tile.tokens) {
        #[unroll]
        for i in 0..comptime!(tile.width) {
            partial[(t * comptime!(tile.shares) + share) * vector
                + lane * comptime!(tile.width)
                + i] = sums[t].extract(i);
        }
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
                sum += partial[(token * comptime!(tile.shares) + share) * vector + lane];
            }
            if comptime!(tile.sliced) {
                let places = CUBE_COUNT_X as usize * vector;
                sums_of_slices[(slice * tokens + first + token) * places + place] = sum;
            } else {
                let row = row_of(order, place, comptime!(tile.ordered));
                y[(first + token) * rows + row] = finish::<F>(sum, bias, row, store);
            }
        }
        at += comptime!(tile.units());
    }
}

/// Launches the kernel with the given number of `slices`, or with as many as fill the device.
pub(super) fn launch(call: &Call<'_>, weight: Grouped, slices: Option<usize>) {
    let Call { client, dtype, operands, y, tokens, store, .. } = *call;
    let Grouped { rows, cols, vector } = weight;
    let groups = rows.div_ceil(vector);
    let ordered = call.ordered();
    let tile = Tile::of(vector, tokens, ordered, false);
    let tiles = tokens.div_ceil(tile.tokens);
    let room = (tokens, groups * vector);
    let cubes = Cubes {
        count: groups * tiles,
        threads: tile.units(),
        shared: vector * tile.shares * tile.tokens * size_of::<f32>(),
        slices: operands.index.len / groups / tile.shares,
    };
    let partial = Partial::of(client, slices, &cubes, room);
    let tile = Tile { sliced: partial.is_some(), ..tile };
    let slices = partial.as_ref().map_or(1, |partial| partial.slices);
    decode_kernel::launch(
        client,
        CubeCount::Static(groups as u32, tiles as u32, slices as u32),
        tile.dim(),
        AddressType::U32,
        tile.width,
        operands.x.arg(),
        operands.values.words(tile.width),
        operands.index.arg(),
        operands.offsets.arg(),
        operands.order.arg(),
        operands.bias.arg(),
        y.arg(),
        partial.as_ref().map_or(y, |partial| &partial.sums).arg(),
        tokens,
        rows,
        cols,
        tile,
        store,
        dtype,
    );
    if let Some(partial) = partial {
        reduce(call, &partial, rows);
    }
}

#[cfg(feature = "offline")]
pub(crate) fn offline(
    cuda: &crate::stand_in::Cuda,
    dtype: ElemType,
    vector: usize,
    tokens: usize,
    store: Store,
) -> impl cubecl::CubeKernel {
    let tile = Tile::of(vector, tokens, true, true);
    let (settings, properties, target) = cuda.start(tile.dim(), ExecutionMode::Checked);
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
        tile.width,
        tile,
        store,
        dtype,
    )
}
