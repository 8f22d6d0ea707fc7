use crate::count::top;
use crate::pattern::kinds::Violation;
use crate::{Mask, Scores};

/// Keeps the `kept` aligned blocks with the highest sums of scores; blocks at the border are smaller.
pub(crate) fn project(scores: &Scores<'_>, block: usize, kept: usize) -> Mask {
    let (rows, cols) = (scores.rows(), scores.cols());
    let across = cols.div_ceil(block);
    let mut sums = vec![0.0_f32; rows.div_ceil(block) * across];
    for row in 0..rows {
        let sums = &mut sums[row / block * across..][..across];
        for (sum, scores) in sums.iter_mut().zip(scores.row(row).chunks(block)) {
            *sum = (*sum + scores.iter().sum::<f32>()).min(f32::MAX);
        }
    }
    let mut mask = Mask::empty(rows, cols);
    for index in top(&sums, kept, &mut Vec::new()) {
        let (top, left) = (index / across * block, index % across * block);
        for row in top..(top + block).min(rows) {
            for col in left..(left + block).min(cols) {
                mask.set(row, col);
            }
        }
    }
    mask
}

pub(crate) fn check(mask: &Mask, block: usize) -> Result<(), Violation> {
    for top in (0..mask.rows()).step_by(block) {
        let bottom = (top + block).min(mask.rows());
        for left in (0..mask.cols()).step_by(block) {
            let right = (left + block).min(mask.cols());
            let found: usize = (top..bottom).map(|row| mask.count_in(row, left, right)).sum();
            let all = (bottom - top) * (right - left);
            if found != 0 && found != all {
                return Err(Violation {
                    place: format!(
                        "block at rows {top} to {}, columns {left} to {}",
                        bottom - 1,
                        right - 1
                    ),
                    expected: format!("0 or {all} kept weights"),
                    found: found.to_string(),
                });
            }
        }
    }
    Ok(())
}
