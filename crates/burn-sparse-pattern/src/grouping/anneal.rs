use gemm::Parallelism;
use rayon::prelude::*;

use crate::grouping::assign::assign;
use crate::grouping::canonical::{Canonical, Groups};
use crate::grouping::keep::Keep;
use crate::grouping::threshold::select;

/// Initial width of the border between kept and dropped columns, in standard deviations of a group's
/// sums. Found by experiment: 1 and 4 keep less, on trained and on random weights.
pub(crate) const WIDEST: f32 = 2.0;

/// Weight of every column in every group, `[groups, cols]`: 1 for a kept column, 0 for a dropped one,
/// and a value in between for those near the threshold while the border is soft.
pub(crate) struct Columns(pub(crate) Vec<f32>);

impl Columns {
    /// Computes the columns of groups, with a border of `width` standard deviations; a width of 0 gives
    /// the hard border of a mask.
    pub(crate) fn of(rows: &Canonical<'_>, keep: Keep, groups: &Groups, width: f32) -> Self {
        let cols = rows.cols();
        let mut columns = vec![0.0_f32; groups.len() * cols];
        let jobs = rows.jobs(rows.rows() / groups.len());
        columns.par_chunks_mut(cols).with_min_len(jobs).zip(groups).for_each(|(columns, group)| {
            columns.copy_from_slice(&rows.sums(group));
        });
        let shared = match keep {
            Keep::PerGroup(_) => None,
            Keep::Total(kept) => Some(select(&[&columns], kept, &mut Vec::new()).threshold),
        };
        columns.par_chunks_mut(cols).with_min_len(rows.jobs(8)).for_each_init(
            Vec::new,
            |scratch, sums| {
                let threshold = match (shared, keep) {
                    (Some(threshold), _) => threshold,
                    (None, Keep::PerGroup(kept) | Keep::Total(kept)) => {
                        select(&[sums], kept, scratch).threshold
                    }
                };
                soften(sums, threshold, width);
            },
        );
        Self(columns)
    }

    /// Assigns rows to groups of exactly the given sizes, by the score that each row keeps in these
    /// columns.
    pub(crate) fn assign(&self, rows: &Canonical<'_>, sizes: &[usize]) -> Groups {
        let gains = self.gains(rows, sizes.len());
        let wishes = |rank: u32| &gains[rows.stored_at(rank) * sizes.len()..][..sizes.len()];
        let group_of = assign(rows.rows(), wishes, sizes);
        let mut groups = vec![Vec::new(); sizes.len()];
        for (rank, group) in (0..).zip(group_of) {
            groups[group as usize].push(rank);
        }
        groups
    }

    /// Computes the score that every stored row would keep in every group, `[rows, groups]`.
    fn gains(&self, canonical: &Canonical<'_>, groups: usize) -> Vec<f32> {
        let (rows, cols) = (canonical.rows(), canonical.cols());
        let mut gains = vec![0.0_f32; rows * groups];
        // SAFETY: the three matrices are row-major, of exactly the shapes and strides given (the
        // columns are read transposed), and the output does not overlap the inputs.
        unsafe {
            gemm::gemm(
                rows,
                groups,
                cols,
                gains.as_mut_ptr(),
                1,
                groups as isize,
                false,
                canonical.stored().as_ptr(),
                1,
                cols as isize,
                self.0.as_ptr(),
                cols as isize,
                1,
                0.0,
                1.0,
                false,
                false,
                false,
                Parallelism::Rayon(0),
            );
        }
        // The sum of finite scores may overflow.
        gains.iter_mut().for_each(|gain| *gain = gain.min(f32::MAX));
        gains
    }
}

/// Converts sums to column weights: a ramp from 0 to 1 around the threshold.
fn soften(sums: &mut [f32], threshold: f32, width: f32) {
    let mean = sums.iter().map(|&sum| f64::from(sum)).sum::<f64>() / sums.len() as f64;
    let square = |&sum: &f32| (f64::from(sum) - mean).powi(2);
    let deviation = (sums.iter().map(square).sum::<f64>() / sums.len() as f64).sqrt();
    let slope = 1.0 / (deviation * f64::from(width));
    for sum in sums {
        let above = f64::from(*sum) - f64::from(threshold);
        *sum = if slope.is_finite() {
            (0.5 + above * slope).clamp(0.0, 1.0) as f32
        } else {
            f32::from(above >= 0.0)
        };
    }
}
