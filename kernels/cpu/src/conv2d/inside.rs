use std::ops::Range;

use crate::Window;

/// Returns the positions among the first `places` of a line of outputs that read a pixel inside an image of this width,
/// `right` pixels from the start of their windows, and the pixel that the first of them reads.
pub(crate) fn inside(
    window: &Window,
    width: usize,
    right: usize,
    places: usize,
) -> (Range<usize>, usize) {
    let (stride, before) = (window.stride[1], window.padding[1].0);
    // The first position past the right edge of the image, and the first that is not left of it.
    let end = (width + before).saturating_sub(right).div_ceil(stride).min(places);
    let begin = before.saturating_sub(right).div_ceil(stride).min(end);
    (begin..end, (begin * stride + right).saturating_sub(before))
}
