"""Times cuBLAS through PyTorch: median microseconds of a bf16 linear layer, as JSON.

    python dense.py ROWSxCOLS,... BATCH,...

Random values; enough weights are rotated that they outgrow the L2 cache.
"""

import json
import statistics
import sys

import torch

SAMPLES = 30
ROTATED_BYTES = 256 << 20

rows = []
for shape in sys.argv[1].split(","):
    outputs, inputs = map(int, shape.split("x"))
    count = max(2, ROTATED_BYTES // (2 * outputs * inputs))
    weights = [torch.randn(outputs, inputs, device="cuda", dtype=torch.bfloat16) for _ in range(count)]
    bias = torch.randn(outputs, device="cuda", dtype=torch.bfloat16)
    for batch in map(int, sys.argv[2].split(",")):
        x = torch.randn(batch, inputs, device="cuda", dtype=torch.bfloat16)
        times = []
        for sample in range(SAMPLES + 3):
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            for weight in weights:
                torch.nn.functional.linear(x, weight, bias)
            end.record()
            torch.cuda.synchronize()
            if sample >= 3:
                times.append(start.elapsed_time(end) * 1e3 / count)
        rows.append(
            {"rows": outputs, "cols": inputs, "batch": batch, "dense_us": statistics.median(times)}
        )
print(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}))
