//! Groups of V rows that share their columns; with a row order, this is Shfl-BW.

use rayon::prelude::*;

use crate::count::top;
use crate::grouping::Keep;
use crate::pattern::kinds::Violation;
use crate::{Mask, RowOrder, Scores};

/// Computes the score of every V x 1 vector, `[groups, cols]`.
pub(crate) fn group_sums(scores: &Scores<'_>, vector: usize, order: &RowOrder) -> Vec<f32> {
    let cols = scores.cols();
    let groups: Vec<&[u32]> = order.groups(vector).collect();
    let mut sums = vec![0.0_f32; groups.len() * cols];
    sums.par_chunks_mut(cols).zip(groups).for_each(|(sums, rows)| {
        for &row in rows {
            for (sum, &score) in sums.iter_mut().zip(scores.row(row as usize)) {
                *sum += score;
            }
        }
        // Finite scores can sum to infinity, which would no longer rank.
        sums.iter_mut().for_each(|sum| *sum = sum.min(f32::MAX));
    });
    sums
}

/// Returns the kept columns of each group, in no particular order, given the sums from [`group_sums`].
pub(crate) fn best_columns(sums: &[f32], cols: usize, keep: Keep) -> Vec<Vec<usize>> {
    match keep {
        Keep::PerGroup(kept) => sums
            .par_chunks(cols)
            .map_init(Vec::new, |scratch, sums| top(sums, kept, scratch).collect())
            .collect(),
        Keep::Total(kept) => {
            let mut columns = vec![Vec::new(); sums.len() / cols];
            for index in top(sums, kept, &mut Vec::new()) {
                columns[index / cols].push(index % cols);
            }
            columns
        }
    }
}

pub(crate) fn project(scores: &Scores<'_>, vector: usize, keep: Keep, order: &RowOrder) -> Mask {
    let sums = group_sums(scores, vector, order);
    let columns = best_columns(&sums, scores.cols(), keep);
    let mut mask = Mask::empty(scores.rows(), scores.cols());
    for (rows, columns) in order.groups(vector).zip(&columns) {
        for &row in rows {
            for &col in columns {
                mask.set(row as usize, col);
            }
        }
    }
    mask
}

pub(crate) fn check(
    mask: &Mask,
    vector: usize,
    equal_groups: bool,
    order: &RowOrder,
) -> Result<(), Violation> {
    let mut kept = None;
    for (group, rows) in order.groups(vector).enumerate() {
        let first = rows[0] as usize;
        for &row in &rows[1..] {
            let row = row as usize;
            if mask.row(row) != mask.row(first) {
                let col = (0..mask.cols()).find(|&c| mask.get(row, c) != mask.get(first, c));
                let word = |keeps: bool| if keeps { "kept" } else { "dropped" };
                let keeps = col.is_some_and(|c| mask.get(row, c));
                return Err(Violation {
                    place: format!("group {group}, row {row}, column {}", col.unwrap_or(0)),
                    expected: format!("{} as in row {first} of its group", word(!keeps)),
                    found: word(keeps).into(),
                });
            }
        }
        let found = mask.count_in(first, 0, mask.cols());
        let expected = *kept.get_or_insert(found);
        if equal_groups && found != expected {
            return Err(Violation {
                place: format!("group {group} (row {first} and its like)"),
                expected: format!("{expected} kept columns as in group 0"),
                found: found.to_string(),
            });
        }
    }
    Ok(())
}
