"""The same clock for everybody, and the same as `burn-sparse bench`."""

import datetime
import math
import platform
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


def processor():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        for line in file:
            if line.startswith("model name"):
                return line.split(":")[1].strip()
    return platform.machine()


def about(threads):
    """What belongs beside every number."""
    return {"device": processor(), "threads": threads, "date": str(datetime.date.today())}
