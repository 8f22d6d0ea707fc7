"""The same clock for everybody, and the same as `burn-sparse bench`."""

import math
import statistics
import time

SAMPLES = 15
SAMPLE_SECONDS = 2e-3


def median_us(run):
    """Median microseconds of a call, in samples of at least two milliseconds."""

    def sample(repeats):
        started = time.perf_counter()
        for _ in range(repeats):
            run()
        return (time.perf_counter() - started) / repeats

    repeats = max(1, math.ceil(SAMPLE_SECONDS / min(sample(1), sample(1), sample(1))))
    sample(repeats)
    return 1e6 * statistics.median(sample(repeats) for _ in range(SAMPLES))
