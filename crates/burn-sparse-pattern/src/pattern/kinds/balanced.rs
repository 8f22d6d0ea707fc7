//! Balanced Sparsity (Yao et al., AAAI'19): every block of a row keeps the same number of weights.

use crate::count::{kept_count, top};
use crate::pattern::kinds::Violation;
use crate::{Mask, Scores};

/// Block size of a row, and the number of weights that each block keeps.
pub(crate) struct Counts {
    block: usize,
    cols: usize,
    kept: usize,
    kept_last: usize,
}

impl Counts {
    /// Creates the counts: full blocks keep `kept`; a shorter last block keeps its rounded share.
    pub(crate) fn new(cols: usize, block: usize, sparsity: f64, kept: usize) -> Self {
        let last = cols % block;
        let kept_last = if cols < block { kept } else { kept_count(last, sparsity) };
        Self { block, cols, kept, kept_last }
    }

    /// Returns the number of kept weights per row.
    pub(crate) fn row(&self) -> usize {
        (self.cols / self.block) * self.kept
            + if self.cols.is_multiple_of(self.block) { 0 } else { self.kept_last }
    }
}

pub(crate) fn project(scores: &Scores<'_>, counts: &Counts) -> Mask {
    let mut mask = Mask::empty(scores.rows(), scores.cols());
    let mut scratch = Vec::new();
    for row in 0..scores.rows() {
        for (index, block) in scores.row(row).chunks(counts.block).enumerate() {
            let full = block.len() == counts.block;
            let kept = if full { counts.kept } else { counts.kept_last };
            for at in top(block, kept, &mut scratch) {
                mask.set(row, index * counts.block + at);
            }
        }
    }
    mask
}

/// Checks that all full blocks keep one count and all short last blocks another; `keep`, if given,
/// fixes the first of these.
pub(crate) fn check(mask: &Mask, block: usize, keep: Option<usize>) -> Result<(), Violation> {
    // If the matrix is narrower than a block, its only block is a short one, to which `keep` does not
    // apply.
    let mut full = keep.filter(|_| mask.cols() >= block);
    let mut last = None;
    for row in 0..mask.rows() {
        for (index, from) in (0..mask.cols()).step_by(block).enumerate() {
            let to = (from + block).min(mask.cols());
            let found = mask.count_in(row, from, to);
            let expected = if to - from == block { &mut full } else { &mut last };
            let expected = *expected.get_or_insert(found);
            if found != expected {
                return Err(Violation {
                    place: format!("row {row}, block {index} (columns {from} to {})", to - 1),
                    expected: format!("{expected} kept weights"),
                    found: found.to_string(),
                });
            }
        }
    }
    Ok(())
}
