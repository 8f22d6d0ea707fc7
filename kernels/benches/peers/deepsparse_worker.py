"""DeepSparse in a process of its own: reads `model.onnx batch threads ids_below` lines, answers with microseconds."""

import sys

import deepsparse
import numpy as np

from timing import median_us

for line in sys.stdin:
    path, batch, threads, ids_below = line.split()
    engine = deepsparse.compile_model(path, batch_size=int(batch), num_cores=int(threads))
    shape, random = engine.input_shapes[0], np.random.default_rng(0)
    if int(ids_below):
        x = random.integers(int(ids_below), size=shape)
    else:
        x = random.standard_normal(shape, dtype=np.float32)
    print("us", median_us(lambda: engine.run([x], val_inp=False)), flush=True)
