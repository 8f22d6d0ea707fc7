//! Shfl-BW, vector-wise and block-wise: an ordinary dense register tile whose reduction is gathered
//! (Huang et al., DAC'22, "in-buffer stitching"; here a kept column is a contiguous row of the tile).

use super::Weight;
use super::simd::Simd;

/// Kept columns per pass, so that their rows of the tile stay in the first-level cache while every
/// row of the group uses them: 64 columns of 64 tokens are 16 KB.
const PASS: usize = 64;

/// `yt[row] = Σ values · xt[column]` for the groups `units`.
///
/// # Safety
/// `weight` is checked; `xt` holds `cols` and `yt` `rows` rows of `vectors · LANES` floats; no other
/// thread touches the rows of these groups.
#[inline(always)]
pub(crate) unsafe fn run<S: Simd>(
    weight: &Weight<'_>,
    vector: usize,
    units: std::ops::Range<usize>,
    xt: *const f32,
    yt: *mut f32,
    vectors: usize,
) {
    // SAFETY: passed on.
    unsafe {
        match (vectors, S::TALL) {
            (1, 8) => groups::<S, 8, 1>(weight, vector, units, xt, yt),
            (2, 8) => groups::<S, 8, 2>(weight, vector, units, xt, yt),
            (3, 8) => groups::<S, 8, 3>(weight, vector, units, xt, yt),
            (1, _) => groups::<S, 4, 1>(weight, vector, units, xt, yt),
            (2, _) => groups::<S, 4, 2>(weight, vector, units, xt, yt),
            (3, _) => groups::<S, 4, 3>(weight, vector, units, xt, yt),
            _ => groups::<S, 4, 4>(weight, vector, units, xt, yt),
        }
    }
}

#[inline(always)]
unsafe fn groups<S: Simd, const ROWS: usize, const VECTORS: usize>(
    weight: &Weight<'_>,
    vector: usize,
    units: std::ops::Range<usize>,
    xt: *const f32,
    yt: *mut f32,
) {
    let width = VECTORS * S::LANES;
    for group in units {
        let rows = &weight.order[group * vector..((group + 1) * vector).min(weight.rows)];
        let (mut from, end) = (weight.offsets[group] as usize, weight.offsets[group + 1] as usize);
        // SAFETY: offsets, columns and rows were checked against the arrays they index; `yt` and
        // `xt` hold `width` floats for each row and column.
        unsafe {
            if from == end {
                for &row in rows {
                    std::slice::from_raw_parts_mut(yt.add(row as usize * width), width).fill(0.0);
                }
            }
            let mut first = true;
            while from < end {
                let to = (from + PASS).min(end);
                let columns = weight.columns.get_unchecked(from..to);
                let values = weight.values.as_ptr().add(from * vector);
                let mut at = 0;
                while at + ROWS <= rows.len() {
                    let out = std::array::from_fn(|i| yt.add(rows[at + i] as usize * width));
                    tile::<S, ROWS, VECTORS>(columns, values.add(at), vector, xt, out, first);
                    at += ROWS;
                }
                for (lane, &row) in rows.iter().enumerate().skip(at) {
                    let out = [yt.add(row as usize * width)];
                    tile::<S, 1, VECTORS>(columns, values.add(lane), vector, xt, out, first);
                }
                (from, first) = (to, false);
            }
        }
    }
}

/// `out[i] (+)= Σ_k values[k · vector + i] · xt[columns[k]]`, all sums in registers.
#[inline(always)]
unsafe fn tile<S: Simd, const ROWS: usize, const VECTORS: usize>(
    columns: &[i32],
    values: *const f32,
    vector: usize,
    xt: *const f32,
    out: [*mut f32; ROWS],
    first: bool,
) {
    // SAFETY: the caller checked what every pointer reaches.
    unsafe {
        let mut sums = [[S::zero(); VECTORS]; ROWS];
        if !first {
            for i in 0..ROWS {
                for j in 0..VECTORS {
                    sums[i][j] = S::load(out[i].add(j * S::LANES));
                }
            }
        }
        let mut weights = values;
        for &column in columns {
            let row = xt.add(column as usize * (VECTORS * S::LANES));
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
            weights = weights.add(vector);
        }
        for i in 0..ROWS {
            for j in 0..VECTORS {
                S::store(out[i].add(j * S::LANES), sums[i][j]);
            }
        }
    }
}
