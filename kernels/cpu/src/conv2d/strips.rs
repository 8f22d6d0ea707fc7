/// Number of parts per thread, so that a thread that wakes late still finds some.
const PARTS_PER_THREAD: usize = 2;

/// Minimum number of output pixels per strip.
const STRIP: usize = 32;

/// Returns the maximum number of parts per image, so that every thread gets its share of `batch` images.
pub(crate) fn shares(threads: usize, batch: usize) -> usize {
    (threads * PARTS_PER_THREAD).div_ceil(batch.max(1))
}

/// Returns the number of strips per image, each a range of lines of output pixels; `lines` must be at least 1.
pub(crate) fn strips(threads: usize, batch: usize, [lines, columns]: [usize; 2]) -> usize {
    shares(threads, batch).min(lines * columns / STRIP).clamp(1, lines)
}
