use gemm::Parallelism;

use crate::grouping::{assign::assign, seeding};
use crate::patterns::vector_wise::{Keep, best_columns, group_sums};
use crate::{PatternError, RowOrder, Scores};

/// How a row order is searched.
#[derive(Debug, Clone, Copy)]
pub struct Search<'a> {
    /// Seeds the first groups; the same seed finds the same order.
    pub seed: u64,
    /// Alternations between columns and assignment at most; with none, a warm order stays as it is.
    pub rounds: usize,
    /// The order to start from instead of a cold search, as in a ramp's next update.
    pub warm: Option<&'a RowOrder>,
}

impl Default for Search<'_> {
    fn default() -> Self {
        Self { seed: 0, rounds: 12, warm: None }
    }
}

/// A gain below this share of the score ends the alternation.
const TOO_SMALL: f64 = 1e-4;

/// The row order, in groups of exactly `vector` (the last one may be shorter), that keeps the most
/// score of those seen; never less than no shuffle, nor than the warm start.
pub(crate) fn search(
    scores: &Scores<'_>,
    vector: usize,
    keep: Keep,
    search: &Search<'_>,
) -> Result<RowOrder, PatternError> {
    let rows = scores.rows();
    if let Some(warm) = search.warm
        && warm.rows() != rows
    {
        let reason = format!("the matrix has {rows} rows");
        return Err(PatternError::RowOrder { rows: warm.rows(), reason });
    }
    if let (Some(warm), 0) = (search.warm, search.rounds) {
        return Ok(warm.clone());
    }
    let mut best = Candidate::new(scores, vector, keep, RowOrder::identity(rows));
    if rows <= vector {
        return Ok(best.order);
    }
    let mut columns = match search.warm {
        Some(warm) => {
            let warm = Candidate::new(scores, vector, keep, warm.clone());
            let columns = warm.columns.clone();
            if warm.kept > best.kept {
                best = warm;
            }
            columns
        }
        None => seeding::columns(scores, vector, keep, search.seed),
    };
    let sizes: Vec<usize> = best.order.groups(vector).map(<[u32]>::len).collect();
    let mut last = 0.0;
    for _ in 0..search.rounds {
        let group_of = assign(&gains(scores, &columns), &sizes);
        let next = Candidate::new(scores, vector, keep, order(&group_of, sizes.len()));
        let (kept, stop) = (next.kept, next.kept <= last * (1.0 + TOO_SMALL));
        columns.clone_from(&next.columns);
        if kept > best.kept {
            best = next;
        }
        if stop {
            break;
        }
        last = kept;
    }
    Ok(best.order)
}

struct Candidate {
    order: RowOrder,
    columns: Vec<Vec<usize>>,
    kept: f64,
}

impl Candidate {
    fn new(scores: &Scores<'_>, vector: usize, keep: Keep, order: RowOrder) -> Self {
        let (sums, cols) = (group_sums(scores, vector, &order), scores.cols());
        let mut columns = best_columns(&sums, cols, keep);
        // Summed in ascending order, so that the total does not depend on how columns were selected.
        columns.iter_mut().for_each(|columns| columns.sort_unstable());
        let kept = columns
            .iter()
            .zip(sums.chunks(cols))
            .flat_map(|(columns, sums)| columns.iter().map(|&col| f64::from(sums[col])))
            .sum();
        Self { order, columns, kept }
    }
}

/// What every row would keep in every group, `[rows, groups]`: scores times the groups' columns.
fn gains(scores: &Scores<'_>, columns: &[Vec<usize>]) -> Vec<f32> {
    let (rows, cols, groups) = (scores.rows(), scores.cols(), columns.len());
    let mut keeps = vec![0.0_f32; cols * groups];
    for (group, columns) in columns.iter().enumerate() {
        for &col in columns {
            keeps[col * groups + group] = 1.0;
        }
    }
    let mut gains = vec![0.0_f32; rows * groups];
    // SAFETY: the three matrices are row-major, of exactly the shapes and strides given, and the
    // output does not overlap the inputs.
    unsafe {
        gemm::gemm(
            rows,
            groups,
            cols,
            gains.as_mut_ptr(),
            1,
            groups as isize,
            false,
            scores.values().as_ptr(),
            1,
            cols as isize,
            keeps.as_ptr(),
            1,
            groups as isize,
            0.0,
            1.0,
            false,
            false,
            false,
            Parallelism::Rayon(0),
        );
    }
    // A sum of finite scores may overflow.
    gains.iter_mut().for_each(|gain| *gain = gain.min(f32::MAX));
    gains
}

/// Rows ascending within a group, groups by their first row, the short group last: equal groupings
/// give equal orders.
fn order(group_of: &[u32], groups: usize) -> RowOrder {
    let mut members = vec![Vec::new(); groups];
    for (row, &group) in group_of.iter().enumerate() {
        members[group as usize].push(row as u32);
    }
    let full = members[0].len();
    members.sort_by_key(|rows| (rows.len() < full, rows[0]));
    RowOrder::trusted(members.concat())
}
