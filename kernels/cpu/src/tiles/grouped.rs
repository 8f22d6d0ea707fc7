//! Kernel of the grouped layout (Shfl-BW, vector-wise and block-wise): an ordinary dense register tile whose reduction
//! is gathered (Huang et al., DAC'22, "in-buffer stitching"; here, a kept column is a contiguous row of the tile).

use super::tile_rows::TileRows;
use crate::simd::Simd;
use crate::value::widened;
use crate::{Store, Value, Weight};

/// Kept columns per pass, so that their rows of the tile stay in the first-level cache while every
/// row of the group uses them: 128 columns of 48 tokens are 24 KB.
pub(crate) const PASS: usize = 128;

/// Computes `yt[row] = activation(bias + Σ values · inputs[column])` for the groups `units`.
///
/// # Safety
/// `weight` must be checked; `inputs` must hold `cols` rows and `yt` `rows` rows of `vectors · LANES` floats; no other
/// thread may touch the rows of these groups.
#[inline(always)]
pub(crate) unsafe fn run<S: Simd, V: Value, I: TileRows>(
    weight: &Weight<'_, V>,
    vector: usize,
    store: Store<'_>,
    units: std::ops::Range<usize>,
    (inputs, yt): (I, *mut f32),
    vectors: usize,
    window: &mut [f32],
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        match (vectors, S::TALL) {
            (1, 8) => groups::<S, V, I, 8, 1>(weight, vector, store, units, inputs, yt, window),
            (2, 8) => groups::<S, V, I, 8, 2>(weight, vector, store, units, inputs, yt, window),
            (3, 8) => groups::<S, V, I, 8, 3>(weight, vector, store, units, inputs, yt, window),
            (1, _) => groups::<S, V, I, 4, 1>(weight, vector, store, units, inputs, yt, window),
            (2, _) => groups::<S, V, I, 4, 2>(weight, vector, store, units, inputs, yt, window),
            (3, _) => groups::<S, V, I, 4, 3>(weight, vector, store, units, inputs, yt, window),
            _ => unreachable!("no tile is wider than `GROUPED_VECTORS`"),
        }
    }
}

#[inline(always)]
unsafe fn groups<S: Simd, V: Value, I: TileRows, const ROWS: usize, const VECTORS: usize>(
    weight: &Weight<'_, V>,
    vector: usize,
    store: Store<'_>,
    units: std::ops::Range<usize>,
    inputs: I,
    yt: *mut f32,
    window: &mut [f32],
) {
    for group in units {
        let rows = &weight.order[group * vector..((group + 1) * vector).min(weight.rows)];
        let (start, end) = (weight.offsets[group] as usize, weight.offsets[group + 1] as usize);
        // SAFETY: offsets, columns and rows were checked against the arrays they index; `yt` and
        // `inputs` hold `width` floats for each row and column.
        unsafe {
            let mut from = start;
            // A group without columns also needs one pass, which stores the bias.
            loop {
                let to = (from + PASS).min(end);
                let pass = Pass {
                    columns: weight.columns.get_unchecked(from..to),
                    vector,
                    inputs,
                    store,
                    first: from == start,
                    last: to == end,
                };
                let values = weight.values.get_unchecked(from * vector..to * vector);
                let values = widened::<S, V>(values, window);
                let mut at = 0;
                while at + ROWS <= rows.len() {
                    let rows = std::array::from_fn(|i| rows[at + i] as usize);
                    pass.tile::<S, V, ROWS, VECTORS>(values.add(at), rows, yt);
                    at += ROWS;
                }
                for (lane, &row) in rows.iter().enumerate().skip(at) {
                    pass.tile::<S, V, 1, VECTORS>(values.add(lane), [row as usize], yt);
                }
                if to == end {
                    break;
                }
                from = to;
            }
        }
    }
}

/// One pass over some kept columns of a group.
struct Pass<'a, I> {
    columns: &'a [i32],
    vector: usize,
    inputs: I,
    store: Store<'a>,
    first: bool,
    last: bool,
}

impl<I: TileRows> Pass<'_, I> {
    /// Computes `yt[rows[i]] (+)= Σ_k values[k · vector + i] · inputs[columns[k]]` with all sums in registers.
    #[inline(always)]
    unsafe fn tile<S: Simd, V: Value, const ROWS: usize, const VECTORS: usize>(
        &self,
        values: *const f32,
        rows: [usize; ROWS],
        yt: *mut f32,
    ) {
        let width = VECTORS * S::LANES;
        // SAFETY: the caller checked the range of every pointer.
        unsafe {
            let mut sums = [[S::zero(); VECTORS]; ROWS];
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    sums[i][j] = if self.first {
                        S::splat(self.store.bias(rows[i]))
                    } else {
                        S::load(yt.add(rows[i] * width + j * S::LANES))
                    };
                }
            }
            let mut weights = values;
            for &column in self.columns {
                let row = self.inputs.row(column as usize, width);
                let mut x = [S::zero(); VECTORS];
                for j in 0..VECTORS {
                    x[j] = S::load(row.add(j * S::LANES));
                }
                for i in 0..ROWS {
                    let w = S::splat(*weights.add(i));
                    for j in 0..VECTORS {
                        sums[i][j] = S::fma(w, x[j], sums[i][j]);
                    }
                }
                // Prefetches the same column of the next pass: the weights of a large layer come from memory once per
                // tile of tokens, and the CPU does not predict steps of a vector's length. Two-byte values were widened
                // before, one after the other.
                if V::IS_F32 {
                    S::prefetch(weights.wrapping_add(PASS * self.vector));
                }
                weights = weights.wrapping_add(self.vector);
            }
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    let at = yt.add(rows[i] * width + j * S::LANES);
                    S::store(at, self.store.activate::<S>(sums[i][j], self.last));
                }
            }
            if self.last {
                for row in rows {
                    self.store.finish::<S>(yt.add(row * width), width);
                }
            }
        }
    }
}
