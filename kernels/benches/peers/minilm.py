"""MiniLM as we run it, dense and packed, beside ONNX Runtime in f32 and int8, in one run.

    minilm.py DENSE PACKED... --ours COMMAND [--data-dir DATA --eval COMMAND]

The graph is built here from the folder's own configuration and weights, with the operators that exporters write, and
optimized by ONNX Runtime. Rounds take turns; a number is the median of the rounds. With DATA, every model's Spearman
correlation on STS-B's test pairs as well. Prints one JSON object.
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
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from safetensors.numpy import load_file
from tokenizers import Tokenizer

from timing import about, median_us

CELLS = [(1, 16), (1, 128), (32, 16), (32, 128)]


class Graph:
    """Nodes and weights of an ONNX graph under construction."""

    def __init__(self):
        self.nodes, self.weights, self.known = [], [], set()

    def constant(self, name, value):
        if name not in self.known:
            self.known.add(name)
            self.weights.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def op(self, kind, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output


def build(folder):
    config = json.loads((folder / "config.json").read_text())
    w = load_file(folder / "model.safetensors")
    width, heads = config["hidden_size"], config["num_attention_heads"]
    size, g = width // heads, Graph()

    def linear(x, name):
        product = g.op("MatMul", x, g.constant(f"{name}.weight", w[f"{name}.weight"].T))
        return g.op("Add", product, g.constant(f"{name}.bias", w[f"{name}.bias"]))

    def norm(x, name):
        parts = (g.constant(f"{name}.{part}", w[f"{name}.{part}"]) for part in ("weight", "bias"))
        return g.op("LayerNormalization", x, *parts, axis=-1, epsilon=config["layer_norm_eps"])

    def scalar(value):
        return g.constant(f"c{value}", np.array(value, np.float32))

    def split(x, order):
        shape = g.constant("split", np.array([0, 0, heads, size], np.int64))
        return g.op("Transpose", g.op("Reshape", x, shape), perm=order)

    e = "embeddings"
    place = w[f"{e}.position_embeddings.weight"] + w[f"{e}.token_type_embeddings.weight"][0]
    length = g.op("Slice", g.op("Shape", "ids"), *(g.constant(f"i{i}", np.array([i], np.int64)) for i in (1, 2)))
    zero = g.constant("i0", np.array([0], np.int64))
    places = g.op("Slice", g.constant("places", place), zero, length, zero)
    words = g.op("Gather", g.constant("words", w[f"{e}.word_embeddings.weight"]), "ids", axis=0)
    x = norm(g.op("Add", words, places), f"{e}.LayerNorm")
    for layer in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{layer}"
        q, k, v = (linear(x, f"{p}.attention.self.{part}") for part in ("query", "key", "value"))
        q, k, v = split(q, [0, 2, 1, 3]), split(k, [0, 2, 3, 1]), split(v, [0, 2, 1, 3])
        scores = g.op("Div", g.op("MatMul", q, k), scalar(float(size**0.5)))
        context = g.op("MatMul", g.op("Softmax", scores, axis=-1), v)
        merged = g.constant("merge", np.array([0, 0, width], np.int64))
        context = g.op("Reshape", g.op("Transpose", context, perm=[0, 2, 1, 3]), merged)
        x = norm(g.op("Add", linear(context, f"{p}.attention.output.dense"), x), f"{p}.attention.output.LayerNorm")
        y = linear(x, f"{p}.intermediate.dense")
        erf = g.op("Erf", g.op("Div", y, scalar(float(2**0.5))))
        y = g.op("Mul", g.op("Mul", y, g.op("Add", erf, scalar(1.0))), scalar(0.5))
        x = norm(g.op("Add", linear(y, f"{p}.output.dense"), x), f"{p}.output.LayerNorm")
    mean = g.op("ReduceMean", x, g.constant("i1", np.array([1], np.int64)), keepdims=0)
    g.nodes.append(helper.make_node("LpNormalization", [mean], ["embedding"], axis=-1, p=2))
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["batch", "tokens"])
    out = helper.make_tensor_value_info("embedding", TensorProto.FLOAT, ["batch", width])
    graph = helper.make_graph(g.nodes, "bert", [ids], [out], g.weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


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
    parser.add_argument("--eval", help="the command `burn-sparse eval`")
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--seeds", type=pathlib.Path, nargs="*", default=[], help="NAME.SEED: folders to evaluate only")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        onnx.save(build(arguments.dense), place / "f32.onnx")
        quantize_dynamic(place / "f32.onnx", place / "int8.onnx", weight_type=QuantType.QInt8)
        sessions = {name: session(place / f"{name}.onnx", arguments.threads) for name in ("f32", "int8")}
        times = {}

        def add(cell, name, value):
            times.setdefault(cell, {}).setdefault(name, []).append(value)

        for _ in range(arguments.rounds):
            for folder in arguments.packed:
                command = [*shlex.split(arguments.ours), str(arguments.dense), str(folder)]
                ours = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
                for cell, found in ours.items():
                    add(cell, "burn_sparse_dense", found["dense_ms"])
                    add(cell, f"burn_sparse_{folder.name.split('.')[0]}", found["packed_ms"])
            for batch, length in CELLS:
                cell = f"{batch}x{length}"
                ids = np.arange(batch * length).reshape(batch, length) * 37 % 30000
                for name, run in sessions.items():
                    add(cell, f"onnxruntime_{name}", median_us(lambda: run.run(None, {"ids": ids})) / 1e3)
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
