/// Strips for every thread: one that wakes late still finds some.
const STRIPS_PER_THREAD: usize = 2;

/// Output pixels of a strip at least.
const STRIP: usize = 32;

/// How many strips, some lines of output pixels each, a picture is cut into, so that every thread has its share of
/// `batch` of them; there is at least one line.
pub(super) fn strips(threads: usize, batch: usize, [lines, columns]: [usize; 2]) -> usize {
    let shared = (threads * STRIPS_PER_THREAD).div_ceil(batch.max(1));
    shared.min(lines * columns / STRIP).clamp(1, lines)
}
