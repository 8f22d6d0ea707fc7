"""MiniLM as we run it, dense and packed, beside ONNX Runtime in f32 and int8 and DeepSparse, dense and pruned, in one run.

    minilm.py DENSE PACKED... --ours COMMAND --deepsparse PYTHON [--data-dir DATA --eval COMMAND]

Rounds take turns; a number is the median of the rounds. DeepSparse gets a graph of each size, dense and with weights pruned
by magnitude without a pattern, which it is made for. With DATA, every model's Spearman correlation on STS-B's test pairs as
well. Prints one JSON object.
"""

import argparse
import csv
import json
import pathlib
import shlex
import statistics
import subprocess
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnxruntime.quantization import QuantType, quantize_dynamic
from tokenizers import Tokenizer

from deepsparse_process import DeepSparse
from minilm_graph import Fixed, Fused, build
from timing import about, median_us

CELLS = [(1, 16), (1, 128), (32, 16), (32, 128)]


def session(path, threads):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def spearman(session, folder, data):
    """Rank correlation of the cosines of STS-B's test pairs with their scores."""
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    with open(data / "stsb" / "stsb-en-test.csv", newline="", encoding="utf-8") as file:
        pairs = list(csv.reader(file))

    def embed(text):
        ids = np.array([tokenizer.encode(text).ids], np.int64)
        return session.run(None, {"ids": ids})[0][0]

    def ranks(values):
        _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
        return (np.cumsum(counts) - (counts - 1) / 2)[places]

    cosines = np.array([embed(a) @ embed(b) for a, b, _ in pairs])
    return float(np.corrcoef(ranks(cosines), ranks(np.array([float(score) for *_, score in pairs])))[0, 1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dense", type=pathlib.Path)
    parser.add_argument("packed", type=pathlib.Path, nargs="+")
    parser.add_argument("--ours", required=True, help="the command of the bench `pretrained`")
    parser.add_argument("--deepsparse", required=True, help="a Python that has DeepSparse")
    parser.add_argument("--sparsity", nargs="*", type=float, default=[0.0, 0.75, 0.9], help="of DeepSparse's graphs")
    parser.add_argument("--eval", help="the command `burn-sparse eval`")
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--seeds", type=pathlib.Path, nargs="*", default=[], help="NAME.SEED: folders to evaluate only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        onnx.save(build(arguments.dense, Fused()), place / "f32.onnx")
        quantize_dynamic(place / "f32.onnx", place / "int8.onnx", weight_type=QuantType.QInt8)
        sessions = {name: session(place / f"{name}.onnx", arguments.threads) for name in ("f32", "int8")}
        deepsparse = DeepSparse(arguments.deepsparse, arguments.threads)
        times = {}

        def add(cell, name, value):
            times.setdefault(cell, {}).setdefault(name, []).append(value)

        for _ in range(arguments.rounds):
            command = [*shlex.split(arguments.ours), str(arguments.dense), *map(str, arguments.packed)]
            ours = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            for cell, (dense, *packed) in ours.items():
                add(cell, "burn_sparse_dense", dense["ms"])
                for folder, found in zip(arguments.packed, packed, strict=True):
                    add(cell, f"burn_sparse_{folder.name.split('.')[0]}", found["ms"])
            for batch, length in CELLS:
                cell = f"{batch}x{length}"
                ids = np.arange(batch * length).reshape(batch, length) * 37 % 30000
                for name, run in sessions.items():
                    add(cell, f"onnxruntime_{name}", median_us(lambda: run.run(None, {"ids": ids})) / 1e3)
                for sparsity in arguments.sparsity:
                    onnx.save(build(arguments.dense, Fixed(batch, length), sparsity), place / "fixed.onnx")
                    ms = deepsparse.time(place / "fixed.onnx", batch, ids_below=30000) / 1e3
                    add(cell, f"deepsparse_{sparsity:.0%}".replace("%", ""), ms)
        deepsparse.close()
        ms = {c: {n: round(statistics.median(v), 3) for n, v in named.items()} for c, named in times.items()}
        found = about(arguments.threads) | {"ms": ms}
        if arguments.data_dir:
            found["spearman"] = scores = {}
            for folder in (arguments.dense, *arguments.packed, *arguments.seeds):
                name = "dense" if folder == arguments.dense else folder.name.split(".")[0]
                command = [*shlex.split(arguments.eval), str(folder), "--data-dir", str(arguments.data_dir), "--json"]
                answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                scores.setdefault(f"burn_sparse_{name}", []).append(round(answer["metric"]["value"], 4))
            for name, run in sessions.items():
                scores[f"onnxruntime_{name}"] = [round(spearman(run, arguments.dense, arguments.data_dir), 4)]
        print(json.dumps(found, indent=1))


main()
