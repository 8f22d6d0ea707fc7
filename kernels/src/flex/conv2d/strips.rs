/// Parts for every thread: one that wakes late still finds some.
const PARTS_PER_THREAD: usize = 2;

/// Output pixels of a strip at least.
const STRIP: usize = 32;

/// How many parts a picture is cut into at most, so that every thread has its share of `batch` of them.
pub(super) fn shares(threads: usize, batch: usize) -> usize {
    (threads * PARTS_PER_THREAD).div_ceil(batch.max(1))
}

/// How many strips, some lines of output pixels each, a picture is cut into; there is at least one line.
pub(super) fn strips(threads: usize, batch: usize, [lines, columns]: [usize; 2]) -> usize {
    shares(threads, batch).min(lines * columns / STRIP).clamp(1, lines)
}
