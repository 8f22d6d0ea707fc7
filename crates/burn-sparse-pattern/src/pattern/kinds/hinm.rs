//! Hierarchical N:M (HiNM, arXiv 2407.20496; related to VENOM's V:N:M, SC'23): groups of V rows share
//! their columns as in Shfl-BW, and within these columns every row keeps `keep` of every `of`.

use crate::count::{check_sparsity, top};
use crate::grouping::Keep;
use crate::pattern::kinds::vector_wise::{best_columns, group_sums};
use crate::pattern::kinds::{Violation, balanced};
use crate::{Mask, PatternError, RowOrder, Scores};

/// Inner pattern: `keep` of every `of` kept columns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Inner {
    pub(crate) keep: usize,
    pub(crate) of: usize,
}

impl Inner {
    /// Returns the number of runs of `of` columns that a group keeps at `sparsity`. Exceeds the number
    /// of runs in a row if the inner pattern alone drops more than `sparsity`.
    ///
    /// # Errors
    /// Returns an error if that number is zero, or the matrix is narrower than one run.
    pub(crate) fn runs(self, cols: usize, sparsity: f64) -> Result<usize, PatternError> {
        check_sparsity(sparsity)?;
        let runs = (cols as f64 * (1.0 - sparsity) / self.keep as f64).round() as usize;
        if runs == 0 || cols < self.of {
            Err(self.degenerate(cols, sparsity, runs))
        } else {
            Ok(runs)
        }
    }

    /// Returns the number of runs at a target, or an error if they need more columns than the matrix
    /// has.
    pub(crate) fn target(self, cols: usize, sparsity: f64) -> Result<usize, PatternError> {
        match self.runs(cols, sparsity)? {
            runs if runs * self.of > cols => Err(self.degenerate(cols, sparsity, runs)),
            runs => Ok(runs),
        }
    }

    fn degenerate(self, cols: usize, sparsity: f64, runs: usize) -> PatternError {
        let Self { keep, of } = self;
        let share = |runs: usize| {
            format!("{} (keeps {})", 1.0 - (runs * keep) as f64 / cols as f64, runs * keep)
        };
        let nearest = match (runs, cols / of) {
            (_, 0) => "none, a row is shorter than one run".into(),
            (0, _) => share(1),
            (_, most) => share(most),
        };
        let unit = format!("weights of a row, {keep} of every {of} kept columns");
        PatternError::Degenerate { sparsity, kept: runs * keep, of: cols, unit, nearest }
    }
}

/// Computes the mask for a row order. If the sparsity is below that of the inner pattern, as early in a
/// ramp, all columns stay and every run keeps its rounded share.
pub(crate) fn project(
    scores: &Scores<'_>,
    vector: usize,
    inner: Inner,
    sparsity: f64,
    order: &RowOrder,
) -> Result<Mask, PatternError> {
    let (cols, Inner { keep, of }) = (scores.cols(), inner);
    let runs = inner.runs(cols, sparsity)?;
    if runs * of > cols {
        let kept = crate::count::kept_count(of, sparsity).max(keep);
        return Ok(balanced::project(scores, &balanced::Counts::new(cols, of, sparsity, kept)));
    }
    let sums = group_sums(scores, vector, order);
    let mut columns = best_columns(&sums, cols, Keep::PerGroup(runs * of));
    columns.iter_mut().for_each(|columns| columns.sort_unstable());
    let mut mask = Mask::empty(scores.rows(), cols);
    let (mut run, mut scratch) = (Vec::with_capacity(of), Vec::new());
    for (rows, columns) in order.groups(vector).zip(&columns) {
        for &row in rows {
            let row = row as usize;
            for columns in columns.chunks(of) {
                run.clear();
                run.extend(columns.iter().map(|&col| scores.row(row)[col]));
                for at in top(&run, keep, &mut scratch) {
                    mask.set(row, columns[at]);
                }
            }
        }
    }
    Ok(mask)
}

/// Returns the columns of each run of a group: the union of the columns that its rows keep there, at
/// most `of`.
///
/// A column that no row of the group keeps is not visible in the mask, so a run may have fewer columns
/// than when it was projected.
pub(crate) fn runs(
    mask: &Mask,
    inner: Inner,
    group: usize,
    rows: &[u32],
) -> Result<Vec<Vec<usize>>, Violation> {
    let first = rows[0];
    let kept = |row: u32| mask.row_columns(row as usize).collect::<Vec<_>>();
    let expected = kept(first).len();
    let mut runs = vec![Vec::new(); expected / inner.keep];
    for &row in rows {
        let columns = kept(row);
        let whole = columns.len().is_multiple_of(inner.keep);
        if columns.len() != expected || !whole || expected == 0 {
            return Err(Violation {
                place: format!("group {group}, row {row}"),
                expected: if whole {
                    format!("{expected} kept weights as in row {first} of its group")
                } else {
                    format!("a multiple of {} kept weights, at least one", inner.keep)
                },
                found: columns.len().to_string(),
            });
        }
        for (run, columns) in runs.iter_mut().zip(columns.chunks(inner.keep)) {
            run.extend_from_slice(columns);
        }
    }
    for (index, run) in runs.iter_mut().enumerate() {
        run.sort_unstable();
        run.dedup();
        if run.len() > inner.of {
            return Err(Violation {
                place: format!("group {group}, run {index}"),
                expected: format!("at most {} columns", inner.of),
                found: run.len().to_string(),
            });
        }
    }
    if let Some(index) = runs.windows(2).position(|pair| pair[0].last() >= pair[1].first()) {
        return Err(Violation {
            place: format!("group {group}, run {}", index + 1),
            expected: format!("columns after those of run {index}"),
            found: format!("{:?} after {:?}", runs[index + 1], runs[index]),
        });
    }
    Ok(runs)
}

pub(crate) fn check(
    mask: &Mask,
    vector: usize,
    inner: Inner,
    order: &RowOrder,
) -> Result<(), Violation> {
    let mut kept = None;
    for (group, rows) in order.groups(vector).enumerate() {
        let found = runs(mask, inner, group, rows)?.len();
        if found * inner.of > mask.cols() {
            return Err(Violation {
                place: format!("group {group}, row {}", rows[0]),
                expected: format!("at most {} kept weights", mask.cols() / inner.of * inner.keep),
                found: (found * inner.keep).to_string(),
            });
        }
        let expected = *kept.get_or_insert(found);
        if found != expected {
            return Err(Violation {
                place: format!("group {group} (row {} and its like)", rows[0]),
                expected: format!("{expected} runs as in group 0"),
                found: found.to_string(),
            });
        }
    }
    Ok(())
}
