"""Times cuBLAS through PyTorch: microseconds of a linear layer with bias, as JSON.

    python dense.py ROWSxCOLS,... BATCH,... [bf16|f16|f32|tf32]

`device_us` is the median of replays of a captured graph, without the host; `eager_us` of calls as programs make
them. Random values; enough weights are rotated that they outgrow the L2 cache.
"""

import json
import statistics
import sys
import time

import torch

SAMPLES = 20
SAMPLE_SECONDS = 2e-3
ROTATED_BYTES = 256 << 20

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32}
name = sys.argv[3] if len(sys.argv) > 3 else "bf16"
dtype = TYPES[name]
torch.backends.cuda.matmul.allow_tf32 = name == "tf32"


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=dtype)


def microseconds(run, calls):
    """Median, lowest and highest of one call's time, `calls` of which a run makes."""

    def sample(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(repeats):
            run()
        end.record()
        torch.cuda.synchronize()
        return start.elapsed_time(end) * 1e3 / (repeats * calls)

    repeats = max(1, int(SAMPLE_SECONDS * 1e6 / (sample(3) * calls)))
    times = [sample(repeats) for _ in range(SAMPLES + 3)][3:]
    return statistics.median(times), min(times), max(times)


# Clocks rise under work.
big = random(8192, 8192)
until = time.time() + 0.5
while time.time() < until:
    big @ big
    torch.cuda.synchronize()
del big

rows = []
for shape in sys.argv[1].split(","):
    outputs, inputs = map(int, shape.split("x"))
    count = max(2, ROTATED_BYTES // (dtype.itemsize * outputs * inputs))
    weights = [random(outputs, inputs) for _ in range(count)]
    bias = random(outputs)
    for batch in map(int, sys.argv[2].split(",")):
        x = random(batch, inputs)

        def run():
            for weight in weights:
                torch.nn.functional.linear(x, weight, bias)

        run()
        eager, _, _ = microseconds(run, count)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            run()
        device, low, high = microseconds(graph.replay, count)
        rows.append(
            {
                "rows": outputs,
                "cols": inputs,
                "batch": batch,
                "device_us": device,
                "device_us_range": [low, high],
                "eager_us": eager,
            }
        )
        # What remains of a run that is stopped.
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
about = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda}
print(json.dumps({**about, "dtype": name, "rows": rows}))
