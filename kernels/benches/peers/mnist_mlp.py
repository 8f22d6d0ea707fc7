"""The models of a sweep over MNIST's MLP beside ONNX Runtime and DeepSparse on the same network, in one run.

Rounds take turns: `burn-sparse report` times every checkpoint, then the peers time theirs; a number is the median of
the rounds. Peers run the sweep's own weights: ONNX Runtime the dense model, in f32 and quantized to int8, DeepSparse the
unstructured ones, whose accuracy is that of the checkpoint. Accuracies are means over the sweep's seeds.
Prints one JSON object, from which the pictures of the README are drawn.
"""

import argparse
import datetime
import gzip
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from deepsparse_process import DeepSparse
from timing import median_us, processor

LAYERS = ["fc1", "fc2", "head"]


def main():
    arguments = options()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(compare(arguments, folder), indent=1))


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sweep", type=pathlib.Path, help="folder of a finished sweep of an mnist-mlp recipe")
    parser.add_argument("--ours", required=True, help="the burn-sparse command")
    parser.add_argument("--deepsparse", required=True, help="the Python that has DeepSparse")
    parser.add_argument("--data-dir", type=pathlib.Path, required=True, help="folder with mnist/")
    parser.add_argument("--batch", type=int, nargs="*", default=[1, 32])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default=processor(), help="name of the machine, for the record")
    return parser.parse_args()


def compare(arguments, folder):
    images, labels = test_set(arguments.data_dir)
    seeds = sorted((arguments.sweep / "dense").iterdir())
    dense = [weights(arguments, folder, seed) for seed in seeds]
    accuracies = {"f32": [], "int8": []}
    for number, tensors in enumerate(dense):
        for kind in accuracies:
            path = model(folder, f"dense-{number}-{kind}", tensors, None, kind == "int8")
            logits = session(path, arguments.threads).run(None, {"x": images})[0]
            accuracies[kind].append(float(np.mean(logits.argmax(1) == labels)))
    deepsparse = DeepSparse(arguments.deepsparse, arguments.threads)
    pruned = {
        run.parent.name: weights(arguments, folder, run)
        for run in sorted(arguments.sweep.glob("unstructured-*/seed-0"))
    }
    ours, peers = {}, {}
    for number in range(arguments.rounds):
        for row in report(arguments):
            entry = ours.setdefault((row["pattern"], row["sparsity"]), {"row": row, "latency": []})
            entry["latency"].append(row.get("latency", []))
        for batch in arguments.batch:
            x = images[:batch]
            for kind in accuracies:
                path = model(folder, f"dense-{kind}-{batch}", dense[0], batch, kind == "int8")
                run = session(path, arguments.threads)
                add(peers, f"ONNX Runtime, {kind}", batch, median_us(lambda: run.run(None, {"x": x})))
            for name, tensors in pruned.items():
                path = model(folder, f"{name}-{batch}", tensors, batch, False)
                add(peers, f"DeepSparse, {name}", batch, deepsparse.time(path, batch))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr)
    deepsparse.close()
    return document(arguments, accuracies, ours, peers)


def document(arguments, accuracies, ours, peers):
    points = []
    latencies = [latency for entry in ours.values() for round in entry["latency"] for latency in round]
    dense_us = {batch: [each["dense_us"] for each in latencies if each["batch"] == batch] for batch in arguments.batch}
    for (pattern, sparsity), entry in ours.items():
        row = entry["row"]
        if pattern == "dense":
            points.append(point("Burn, dense", 0.0, row["values"], dense_us))
            continue
        us = {}
        for latencies in entry["latency"]:
            for latency in latencies:
                us.setdefault(latency["batch"], []).append(latency["sparse_us"])
        points.append(point(f"burn-sparse, {pattern}", sparsity, row["values"], us))
    for name, us in peers.items():
        if name.startswith("DeepSparse"):
            sparsity, row = nearest(name, ours)
            points.append(point("DeepSparse, unstructured", sparsity, row["values"], us))
        else:
            points.append(point(name, 0.0, accuracies[name.split(", ")[1]], us))
    return {
        "task": "mnist-mlp",
        "metric": "accuracy",
        "device": arguments.device,
        "threads": arguments.threads,
        "date": datetime.date.today().isoformat(),
        "points": points,
    }


def nearest(name, ours):
    """The sweep's own row of a folder such as `unstructured-0.9`."""
    rows = [(s, e["row"]) for (p, s), e in ours.items() if p == "unstructured"]
    wanted = float(next(part for part in name.split("-") if part.replace(".", "", 1).isdigit()))
    return min(rows, key=lambda row: abs(row[0] - wanted))


def point(name, sparsity, values, us):
    return {
        "name": name,
        "sparsity": sparsity,
        "values": [round(value, 5) for value in values],
        "us": {str(batch): round(statistics.median(times), 2) for batch, times in us.items()},
    }


def add(peers, name, batch, us):
    peers.setdefault(name, {}).setdefault(batch, []).append(us)


def report(arguments):
    command = [arguments.ours, "report", str(arguments.sweep), "--json"]
    command += ["--batch", ",".join(map(str, arguments.batch)), "--data-dir", str(arguments.data_dir)]
    environment = os.environ | {"RAYON_NUM_THREADS": str(arguments.threads)}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment)
    return json.loads(done.stdout)["rows"]


def weights(arguments, folder, run):
    """A checkpoint's tensors in PyTorch's orientation, zeros in place."""
    out = os.path.join(folder, "export.safetensors")
    command = [arguments.ours, "export", str(run), "--format", "dense", "--layout", "pytorch", "--out", out]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    data = open(out, "rb").read()
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            start, end = entry["data_offsets"]
            array = np.frombuffer(data[8 + length + start : 8 + length + end], np.float32)
            tensors[name] = array.reshape(entry["shape"])
    return tensors


def model(folder, name, tensors, batch, quantized):
    """The network as an ONNX file: three products, ReLU after the first two."""
    nodes, constants, x = [], [], "x"
    for layer in LAYERS:
        constants.append(numpy_helper.from_array(np.ascontiguousarray(tensors[f"{layer}.weight"].T), f"{layer}.w"))
        constants.append(numpy_helper.from_array(tensors[f"{layer}.bias"], f"{layer}.b"))
        nodes.append(helper.make_node("MatMul", [x, f"{layer}.w"], [f"{layer}.xw"]))
        out = "y" if layer == LAYERS[-1] else f"{layer}.sum"
        nodes.append(helper.make_node("Add", [f"{layer}.xw", f"{layer}.b"], [out]))
        if layer != LAYERS[-1]:
            nodes.append(helper.make_node("Relu", [out], [f"{layer}.y"]))
            x = f"{layer}.y"
    classes = len(tensors["head.bias"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch or "n", tensors["fc1.weight"].shape[1]])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch or "n", classes])]
    graph = helper.make_graph(nodes, "mlp", inputs, outputs, constants)
    path = os.path.join(folder, f"{name}.onnx")
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)
    if not quantized:
        return path
    small = os.path.join(folder, f"{name}-q.onnx")
    quantize_dynamic(path, small, weight_type=QuantType.QInt8, per_channel=True)
    return small


def session(path, threads):
    wanted = onnxruntime.SessionOptions()
    wanted.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(path, wanted, providers=["CPUExecutionProvider"])


def test_set(folder):
    def read(name, skip):
        for path in [folder / "mnist" / name, folder / "mnist" / f"{name}.gz"]:
            if path.exists():
                data = path.read_bytes()
                data = gzip.decompress(data) if path.suffix == ".gz" else data
                return np.frombuffer(data[skip:], np.uint8)
        sys.exit(f"{folder}/mnist has no {name}")

    images = read("t10k-images-idx3-ubyte", 16).reshape(-1, 784).astype(np.float32) / np.float32(255)
    return images, read("t10k-labels-idx1-ubyte", 8)


if __name__ == "__main__":
    main()
