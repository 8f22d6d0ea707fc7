//! Kernels for balanced and unstructured rows: each kept weight is one broadcast, and its input is a contiguous row of
//! the tile.

use crate::layout::TILE_ROWS;
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
                            let mut values = values.add(entry);
                            let mut index = in_block.as_ptr().add(entry);
                            for _ in b * kept..last {
                                if V::IS_F32 {
                                    S::prefetch(values.wrapping_add(ahead));
                                }
                                S::prefetch(index.wrapping_add(ahead).cast());
                                // Loads are what limits this loop: indices and weights are loaded for several
                                // rows at a time.
                                let mut bytes = bytes::<ROWS>(index);
                                for quad in (0..ROWS).step_by(4) {
                                    let weights = S::splats(values.add(quad));
                                    for i in 0..4 {
                                        let row = x.add((bytes & 0xff) as usize * width);
                                        bytes >>= 8;
                                        for j in 0..VECTORS {
                                            let x = S::load(row.add(j * S::LANES));
                                            let sum = &mut sums[quad + i][j];
                                            *sum = S::fma(weights[i], x, *sum);
                                        }
                                    }
                                }
                                values = values.add(TILE_ROWS);
                                index = index.add(TILE_ROWS);
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

/// Computes `yt[row] = activation(bias + Σ values · xt[column])` for the tiles of 16 rows `units` of an unstructured
/// weight.
///
/// # Safety
/// Same as for [`balanced`].
#[inline(always)]
pub(crate) unsafe fn plain<S: Simd, V: Value>(
    weight: &Weight<'_, V>,
    store: Store<'_>,
    units: std::ops::Range<usize>,
    (xt, yt): (*const f32, *mut f32),
    vectors: usize,
    window: &mut [f32],
) {
    let rows = units.start * TILE_ROWS..(units.end * TILE_ROWS).min(weight.rows);
    // SAFETY: guaranteed by the caller.
    unsafe {
        match vectors {
            1 => plain_rows::<S, V, 1>(weight, store, rows, xt, yt, window),
            2 => plain_rows::<S, V, 2>(weight, store, rows, xt, yt, window),
            3 => plain_rows::<S, V, 3>(weight, store, rows, xt, yt, window),
            _ => plain_rows::<S, V, 4>(weight, store, rows, xt, yt, window),
        }
    }
}

#[inline(always)]
unsafe fn plain_rows<S: Simd, V: Value, const VECTORS: usize>(
    weight: &Weight<'_, V>,
    store: Store<'_>,
    rows: std::ops::Range<usize>,
    xt: *const f32,
    yt: *mut f32,
    window: &mut [f32],
) {
    /// Number of kept weights processed at a time, each with its own sums, to hide the latency of a multiply-add.
    const CHAINS: usize = 4;
    let width = VECTORS * S::LANES;
    for row in rows {
        let range = weight.offsets[row] as usize..weight.offsets[row + 1] as usize;
        let columns = &weight.columns[range.clone()];
        let values = widened::<S, V>(&weight.values[range], window);
        // SAFETY: columns were checked against the rows of `xt`, and as many values were widened.
        unsafe {
            let values = std::slice::from_raw_parts(values, columns.len());
            let mut sums = [[S::zero(); VECTORS]; CHAINS];
            let (mut c, mut v) = (columns.chunks_exact(CHAINS), values.chunks_exact(CHAINS));
            for (columns, values) in (&mut c).zip(&mut v) {
                // Four vectors share a weight, so that loading it is little beside loading them.
                let mut weights = [S::zero(); CHAINS];
                if VECTORS < 4 {
                    weights = S::splats(values.as_ptr());
                } else {
                    for chain in 0..CHAINS {
                        weights[chain] = S::splat(values[chain]);
                    }
                }
                for chain in 0..CHAINS {
                    add::<S, VECTORS>(&mut sums[chain], xt, columns[chain], weights[chain]);
                }
            }
            for (&column, &value) in c.remainder().iter().zip(v.remainder()) {
                add::<S, VECTORS>(&mut sums[0], xt, column, S::splat(value));
            }
            for j in 0..VECTORS {
                let low = S::add(sums[0][j], sums[1][j]);
                let high = S::add(sums[2][j], sums[3][j]);
                let sum = S::add(S::splat(store.bias(row)), S::add(low, high));
                S::store(yt.add(row * width + j * S::LANES), store.activate::<S>(sum, true));
            }
            store.finish::<S>(yt.add(row * width), width);
        }
    }
}

/// Computes `sums += weight · xt[column]`, of a weight in every lane.
#[inline(always)]
unsafe fn add<S: Simd, const VECTORS: usize>(
    sums: &mut [S::F; VECTORS],
    xt: *const f32,
    column: i32,
    weight: S::F,
) {
    // SAFETY: the caller checked the column.
    unsafe {
        let x = xt.add(column as usize * VECTORS * S::LANES);
        for (j, sum) in sums.iter_mut().enumerate() {
            *sum = S::fma(weight, S::load(x.add(j * S::LANES)), *sum);
        }
    }
}
