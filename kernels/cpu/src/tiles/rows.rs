//! Kernels for balanced and unstructured rows: each kept weight is one broadcast, and its input is a contiguous row of
//! the tile. Both process several rows of a tile of 16 at a time, and all rows pass by pass over the columns.

use crate::layout::TILE_ROWS;
use crate::parallel::part;
use crate::simd::Simd;
use crate::value::widened;
use crate::{Store, Value, Weight};

/// Columns per pass of the balanced kernel, so that their rows of the tile stay in the first-level
/// cache while a chunk of rows uses them: 128 columns of 64 tokens are 32 KB.
const PASS_COLUMNS: usize = 128;

/// Returns the number of blocks per pass.
pub(crate) fn pass(block: usize) -> usize {
    (PASS_COLUMNS / block).max(1)
}

/// Tiles of 16 rows per chunk, so that the sums of a chunk stay in the second-level cache.
const CHUNK: usize = 64;

/// Computes `yt[row] = activation(bias + Σ values · xt[column])` for the tiles of 16 rows `units` of a balanced weight.
///
/// # Safety
/// `weight` must be checked; `xt` must hold `tile_rows` rows and `yt` `padded_rows` rows of `vectors · LANES` floats;
/// no other thread may touch these rows.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(crate) unsafe fn balanced<S: Simd, V: Value>(
    weight: &Weight<'_, V>,
    layout: (usize, usize),
    store: Store<'_>,
    units: std::ops::Range<usize>,
    (xt, yt): (*const f32, *mut f32),
    vectors: usize,
    window: &mut [f32],
) {
    // SAFETY: guaranteed by the caller. Processes as many rows at a time as registers hold, more than enough to hide
    // the latency of a multiply-add (two per cycle, four cycles each).
    unsafe {
        match (vectors, S::TALL) {
            (1, _) => chunks::<S, V, 8, 1>(weight, layout, store, units, xt, yt, window),
            (2, 8) => chunks::<S, V, 8, 2>(weight, layout, store, units, xt, yt, window),
            (3, 8) => chunks::<S, V, 4, 3>(weight, layout, store, units, xt, yt, window),
            (_, 8) => chunks::<S, V, 4, 4>(weight, layout, store, units, xt, yt, window),
            (2, _) => chunks::<S, V, 4, 2>(weight, layout, store, units, xt, yt, window),
            _ => chunks::<S, V, 4, 3>(weight, layout, store, units, xt, yt, window),
        }
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn chunks<S: Simd, V: Value, const ROWS: usize, const VECTORS: usize>(
    weight: &Weight<'_, V>,
    (block, kept): (usize, usize),
    store: Store<'_>,
    units: std::ops::Range<usize>,
    xt: *const f32,
    yt: *mut f32,
    window: &mut [f32],
) {
    let width = VECTORS * S::LANES;
    let (per_row, blocks) = (weight.kept_per_row(), weight.cols.div_ceil(block));
    let pass = pass(block);
    // Distance from a slot to the same slot of the next tile, which is prefetched as in the grouped kernel.
    let ahead = per_row * TILE_ROWS;
    let mut chunk = units.start;
    while chunk < units.end {
        let chunk_end = (chunk + CHUNK).min(units.end);
        for from in (0..blocks).step_by(pass) {
            let to = (from + pass).min(blocks);
            for tile in chunk..chunk_end {
                let end = if to == blocks { per_row } else { to * kept };
                let slots = tile * per_row + from * kept..tile * per_row + end;
                let values = &weight.values[slots.start * TILE_ROWS..slots.end * TILE_ROWS];
                let values = widened::<S, V>(values, window);
                let in_block = &weight.in_block[slots.start * TILE_ROWS..slots.end * TILE_ROWS];
                for at in (0..TILE_ROWS).step_by(ROWS) {
                    let first_row = tile * TILE_ROWS + at;
                    // SAFETY: slots below `per_row`, of 16 rows each, exist; `yt` has room for the rows that pad the
                    // last tile; a byte index stays inside the padded tile of `x`.
                    unsafe {
                        let out = yt.add(first_row * width);
                        let mut sums = [[S::zero(); VECTORS]; ROWS];
                        for i in 0..ROWS {
                            for j in 0..VECTORS {
                                sums[i][j] = if from > 0 {
                                    S::load(out.add(i * width + j * S::LANES))
                                } else {
                                    S::splat(store.bias((first_row + i).min(weight.rows - 1)))
                                };
                            }
                        }
                        for b in from..to {
                            let x = xt.add(b * block * width);
                            let last = if b + 1 == blocks { per_row } else { (b + 1) * kept };
                            let entry = (b - from) * kept * TILE_ROWS + at;
                            let mut values = values.wrapping_add(entry);
                            let mut index = in_block.as_ptr().wrapping_add(entry);
                            for _ in b * kept..last {
                                if V::IS_F32 {
                                    S::prefetch(values.wrapping_add(ahead));
                                }
                                S::prefetch(index.wrapping_add(ahead).cast());
                                // This loop is limited by its loads, so indices and weights are loaded for
                                // several rows at a time.
                                let mut bytes = bytes::<ROWS>(index);
                                let column = |_| {
                                    let column = bytes & 0xff;
                                    bytes >>= 8;
                                    column as usize
                                };
                                add::<S, ROWS, VECTORS>(&mut sums, values, x, column);
                                values = values.wrapping_add(TILE_ROWS);
                                index = index.wrapping_add(TILE_ROWS);
                            }
                        }
                        for i in 0..ROWS {
                            for j in 0..VECTORS {
                                let sum = store.activate::<S>(sums[i][j], to == blocks);
                                S::store(out.add(i * width + j * S::LANES), sum);
                            }
                        }
                        if to == blocks {
                            store.finish::<S>(out, ROWS * width);
                        }
                    }
                }
            }
        }
        chunk = chunk_end;
    }
}

/// Returns the `N` bytes at `from`, at most eight, the first in the lowest byte.
#[inline(always)]
unsafe fn bytes<const N: usize>(from: *const u8) -> u64 {
    let mut bytes = [0; 8];
    // SAFETY: guaranteed by the caller.
    unsafe { from.copy_to_nonoverlapping(bytes.as_mut_ptr(), N) };
    u64::from_le_bytes(bytes)
}

/// Number of input floats in a pass of the kernel of unstructured rows, the same as in the balanced kernel: 32 KB.
const PASS_FLOATS: usize = 8192;

/// Minimum average number of slots per pass: each pass loads and stores the sums of a tile.
const FEWEST_SLOTS: usize = 24;

/// Maximum number of slots of a pass whose values are widened to f32.
pub(crate) const WIDENED_SLOTS: usize = 128;

/// Computes `yt[row] = activation(bias + Σ values · xt[column])` for the tiles of 16 rows `units` of an unstructured
/// weight.
///
/// # Safety
/// Same as for [`balanced`].
#[inline(always)]
pub(crate) unsafe fn unstructured<S: Simd, V: Value>(
    weight: &Weight<'_, V>,
    store: Store<'_>,
    units: std::ops::Range<usize>,
    (xt, yt): (*const f32, *mut f32),
    vectors: usize,
    window: &mut [f32],
) {
    // SAFETY: guaranteed by the caller. As many rows at a time as for balanced weights.
    unsafe {
        match (vectors, S::TALL) {
            (1, _) => slices::<S, V, 8, 1>(weight, store, units, xt, yt, window),
            (2, 8) => slices::<S, V, 8, 2>(weight, store, units, xt, yt, window),
            (3, 8) => slices::<S, V, 4, 3>(weight, store, units, xt, yt, window),
            (_, 8) => slices::<S, V, 4, 4>(weight, store, units, xt, yt, window),
            (2, _) => slices::<S, V, 4, 2>(weight, store, units, xt, yt, window),
            _ => slices::<S, V, 4, 3>(weight, store, units, xt, yt, window),
        }
    }
}

#[inline(always)]
unsafe fn slices<S: Simd, V: Value, const ROWS: usize, const VECTORS: usize>(
    weight: &Weight<'_, V>,
    store: Store<'_>,
    units: std::ops::Range<usize>,
    xt: *const f32,
    yt: *mut f32,
    window: &mut [f32],
) {
    let width = VECTORS * S::LANES;
    let mut chunk = units.start;
    while chunk < units.end {
        let chunk_end = (chunk + CHUNK).min(units.end);
        // All rows of a chunk take the same share of their slots in a pass. Rows list their columns in ascending order, so
        // these slots read nearly the same columns, which stay in the first-level cache.
        let lengths = (chunk..chunk_end).map(|tile| weight.slots(tile).len());
        let mean = lengths.clone().sum::<usize>() / (chunk_end - chunk);
        let mut passes =
            (weight.cols * width).div_ceil(PASS_FLOATS).min(mean / FEWEST_SLOTS).max(1);
        if !V::IS_F32 {
            passes = passes.max(lengths.max().unwrap_or(0).div_ceil(WIDENED_SLOTS));
        }
        for pass in 0..passes {
            let (first, last) = (pass == 0, pass + 1 == passes);
            for tile in chunk..chunk_end {
                let slots = weight.slots(tile);
                // Distance from a slot to that of the next tile, if both tiles are equally long.
                let ahead = slots.len() * TILE_ROWS;
                let share = part(slots.len(), pass, passes);
                let slots = slots.start + share.start..slots.start + share.end;
                if slots.is_empty() && !first && !last {
                    continue;
                }
                let values = &weight.values[slots.start * TILE_ROWS..slots.end * TILE_ROWS];
                let values = widened::<S, V>(values, window);
                let columns = &weight.columns[slots.start * TILE_ROWS..slots.end * TILE_ROWS];
                for at in (0..TILE_ROWS).step_by(ROWS) {
                    let place = tile * TILE_ROWS + at;
                    // Rows that pad the last tile have their own sums, past the last row.
                    let mut rows = [0; ROWS];
                    for i in 0..ROWS {
                        rows[i] =
                            weight.order.get(place + i).map_or(place + i, |&row| row as usize);
                    }
                    // SAFETY: columns were checked against the rows of `xt`, of which there is one past the last, and
                    // rows are those of `yt`, which has room for the ones that pad the last tile.
                    unsafe {
                        let mut sums = [[S::zero(); VECTORS]; ROWS];
                        for i in 0..ROWS {
                            for j in 0..VECTORS {
                                sums[i][j] = if first {
                                    S::splat(store.bias(rows[i].min(weight.rows - 1)))
                                } else {
                                    S::load(yt.add(rows[i] * width + j * S::LANES))
                                };
                            }
                        }
                        let mut values = values.wrapping_add(at);
                        let mut index = columns.as_ptr().wrapping_add(at);
                        for _ in slots.clone() {
                            if V::IS_F32 {
                                S::prefetch(values.wrapping_add(ahead));
                            }
                            S::prefetch(index.wrapping_add(ahead).cast());
                            let pairs = pairs::<ROWS>(index);
                            let column =
                                |i: usize| (pairs[i / 2] >> (32 * (i % 2))) as u32 as usize;
                            add::<S, ROWS, VECTORS>(&mut sums, values, xt, column);
                            values = values.wrapping_add(TILE_ROWS);
                            index = index.wrapping_add(TILE_ROWS);
                        }
                        for i in 0..ROWS {
                            for j in 0..VECTORS {
                                let sum = store.activate::<S>(sums[i][j], last);
                                S::store(yt.add(rows[i] * width + j * S::LANES), sum);
                            }
                        }
                        if last {
                            for row in rows {
                                store.finish::<S>(yt.add(row * width), width);
                            }
                        }
                    }
                }
            }
        }
        chunk = chunk_end;
    }
}

/// Returns the `N` column ids at `from`, at most eight and an even number, two in each word.
#[inline(always)]
unsafe fn pairs<const N: usize>(from: *const i32) -> [u64; 4] {
    let mut pairs = [0; 4];
    for (i, pair) in pairs.iter_mut().enumerate().take(N / 2) {
        // SAFETY: guaranteed by the caller.
        let [low, high] = unsafe { from.add(2 * i).cast::<[u32; 2]>().read() };
        *pair = u64::from(high) << 32 | u64::from(low);
    }
    pairs
}

/// Adds the products of one slot: a kept weight of every row and the input at its column. This is limited by its
/// loads: weights are loaded for four rows at a time, and callers read indices for several.
#[inline(always)]
unsafe fn add<S: Simd, const ROWS: usize, const VECTORS: usize>(
    sums: &mut [[S::F; VECTORS]; ROWS],
    values: *const f32,
    x: *const f32,
    mut column: impl FnMut(usize) -> usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        for quad in (0..ROWS).step_by(4) {
            let weights = S::splats(values.add(quad));
            for i in 0..4 {
                let row = x.add(column(quad + i) * VECTORS * S::LANES);
                for j in 0..VECTORS {
                    let sum = &mut sums[quad + i][j];
                    *sum = S::fma(weights[i], S::load(row.add(j * S::LANES)), *sum);
                }
            }
        }
    }
}
