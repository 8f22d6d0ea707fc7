use crate::count::top;
use crate::{Mask, Scores};

/// Keeps the `kept` highest scores of the matrix.
pub(crate) fn project(scores: &Scores<'_>, kept: usize) -> Mask {
    let mut mask = Mask::empty(scores.rows(), scores.cols());
    for index in top(scores.values(), kept, &mut Vec::new()) {
        mask.set(index / scores.cols(), index % scores.cols());
    }
    mask
}
