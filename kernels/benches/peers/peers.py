"""Layers of our own beside ONNX Runtime's dense product, MKL's CSR and DeepSparse, in one run.

Everybody computes y[batch, out] = x . Wt + b in f32 with the same number of threads, through the call that
a user would make: a Burn module, an inference session, an engine; MKL through its inspector-executor
interface, without the bias. The rivals get random unstructured masks, which is what they are made for;
ours are patterns of the same sparsity. Rounds take turns; a number is the median of them.
"""

import argparse
import ctypes
import glob
import json
import os
import statistics
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from deepsparse_process import DeepSparse
from timing import median_us

def main():
    arguments = options()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        deepsparse = DeepSparse(arguments.deepsparse, arguments.threads)
        for shape in arguments.shape:
            for sparsity in arguments.sparsity:
                rows += case(arguments, deepsparse, folder, shape, sparsity)
        deepsparse.close()
    if arguments.json:
        json.dump(rows, open(arguments.json, "w"), indent=1)
    print(table(rows, arguments.pattern))


def options():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ours", required=True, help="the burn-sparse command")
    parser.add_argument("--deepsparse", required=True, help="a Python that has DeepSparse")
    parser.add_argument("--shape", nargs="*", default=["1024x1024", "4096x1024", "1024x4096", "4096x4096"])
    parser.add_argument("--pattern", nargs="*", default=["balanced(block=32)", "shfl-bw(vector=32)"])
    parser.add_argument("--sparsity", nargs="*", type=float, default=[0.75, 0.9])
    parser.add_argument("--batch", nargs="*", type=int, default=[1, 16, 128, 512])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json", help="also write every number here")
    return parser.parse_args()


def case(arguments, deepsparse, folder, shape, sparsity):
    """One shape and sparsity: the batches' numbers, each the median of the rounds."""
    out, cols = map(int, shape.split("x"))
    random = np.random.default_rng(0)
    weight = random.standard_normal((out, cols), dtype=np.float32)
    pruned = np.where(random.random((out, cols)) < sparsity, np.float32(0), weight)
    found = {batch: {} for batch in arguments.batch}
    for round in range(arguments.rounds):
        ours = bench(arguments, shape, sparsity)
        for batch in arguments.batch:
            x = random.standard_normal((batch, cols), dtype=np.float32)
            times = {"onnx dense": onnx_runtime(folder, weight, x, arguments.threads)}
            times["mkl csr"] = mkl(pruned, x, arguments.threads)
            times["deepsparse"] = deepsparse.time(model(folder, pruned, batch), batch)
            times |= ours[batch]
            for name, us in times.items():
                found[batch].setdefault(name, []).append(us)
        print(f"{shape} {sparsity} round {round + 1} of {arguments.rounds}", file=sys.stderr)
    return [
        {"shape": shape, "sparsity": sparsity, "batch": batch}
        | {name: statistics.median(times) for name, times in found[batch].items()}
        for batch in arguments.batch
    ]


def bench(arguments, shape, sparsity):
    """Our layers and Burn's dense one, alternating inside the command."""
    command = [arguments.ours, "bench", "--json", "--shape", shape, "--pattern", ",".join(arguments.pattern)]
    command += ["--sparsity", str(sparsity), "--batch", ",".join(map(str, arguments.batch))]
    threads = os.environ | {"RAYON_NUM_THREADS": str(arguments.threads)}
    report = json.loads(subprocess.run(command, check=True, capture_output=True, env=threads).stdout)
    found = {batch: {"burn dense": []} for batch in arguments.batch}
    for row in report["rows"]:
        found[row["batch"]][row["pattern"]] = row["sparse_us"]
        found[row["batch"]]["burn dense"].append(row["dense_us"])
    for times in found.values():
        times["burn dense"] = statistics.median(times["burn dense"])
    return found


def model(folder, weight, batch):
    """`x . Wt + b` as an ONNX file."""
    out, cols = weight.shape
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [batch, cols])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [batch, out])
    constants = [numpy_helper.from_array(np.ascontiguousarray(weight.T), "w")]
    constants += [numpy_helper.from_array(np.ones(out, np.float32), "b")]
    gemm = helper.make_node("Gemm", ["x", "w", "b"], ["y"])
    graph = helper.make_graph([gemm], "layer", [x], [y], constants)
    file = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path = os.path.join(folder, "layer.onnx")
    onnx.save(file, path)
    return path


def onnx_runtime(folder, weight, x, threads):
    wanted = onnxruntime.SessionOptions()
    wanted.intra_op_num_threads = threads
    path = model(folder, weight, len(x))
    session = onnxruntime.InferenceSession(path, wanted, providers=["CPUExecutionProvider"])
    return median_us(lambda: session.run(None, {"x": x}))


class Description(ctypes.Structure):
    """MKL's `matrix_descr`: a general matrix."""

    _fields_ = [("type", ctypes.c_int), ("mode", ctypes.c_int), ("diag", ctypes.c_int)]


def mkl(weight, x, threads, _library=[]):
    """The faster of both layouts of x, tokens-major and features-major; at batch 1 the vector product."""
    if not _library:
        path = glob.glob(os.path.join(sys.prefix, "lib", "libmkl_rt.so*"))[0]
        _library.append(ctypes.CDLL(path))
    library = _library[0]
    library.MKL_Set_Num_Threads(threads)
    out, cols = weight.shape
    at = np.nonzero(weight)
    starts = np.concatenate([[0], np.cumsum(np.bincount(at[0], minlength=out))]).astype(np.int32)
    columns, values = at[1].astype(np.int32), weight[at]
    pointer = lambda array: array.ctypes.data_as(ctypes.c_void_p)
    handle, general = ctypes.c_void_p(), Description(20, 40, 50)
    ends = starts[1:]
    arrays = [pointer(starts), pointer(ends), pointer(columns), pointer(values)]
    check(library.mkl_sparse_s_create_csr(ctypes.byref(handle), 0, out, cols, *arrays))
    plain, one, zero = 10, ctypes.c_float(1), ctypes.c_float(0)
    y = np.empty((len(x), out), np.float32)
    times = []
    if len(x) == 1:
        check(library.mkl_sparse_set_mv_hint(handle, plain, general, 10000))
        check(library.mkl_sparse_optimize(handle))
        product = [plain, one, handle, general, pointer(x), zero, pointer(y)]
        check(library.mkl_sparse_s_mv(*product))
        times.append(median_us(lambda: library.mkl_sparse_s_mv(*product)))
    else:
        features_major = np.ascontiguousarray(x.T)
        for layout, b, ldb, ldy in [(101, features_major, len(x), len(x)), (102, x, cols, out)]:
            check(library.mkl_sparse_set_mm_hint(handle, plain, general, layout, len(x), 10000))
            check(library.mkl_sparse_optimize(handle))
            product = [plain, one, handle, general, layout, pointer(b), len(x), ldb, zero, pointer(y), ldy]
            check(library.mkl_sparse_s_mm(*product))
            times.append(median_us(lambda: library.mkl_sparse_s_mm(*product)))
    library.mkl_sparse_destroy(handle)
    expected = x[:1] @ weight.T
    found = y[:1] if len(x) == 1 or layout == 102 else None
    assert np.allclose(found, expected, rtol=1e-3, atol=1e-2), "MKL's product is wrong"
    return min(times)


def check(status):
    if status != 0:
        sys.exit(f"MKL refused with status {status}")


def table(rows, patterns):
    """Microseconds of the dense products, and everybody's speed-up over ONNX Runtime's."""
    sparse = ["mkl csr", "deepsparse", *patterns]
    names = ["shape", "batch", "zeros", "onnx dense", "burn dense"] + sparse
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        dense = row["onnx dense"]
        best = max(dense / row[name] for name in sparse)
        cell = lambda name: f"{dense / row[name]:.2f}x" if dense / row[name] < best else f"**{best:.2f}x**"
        cells = [row["shape"], str(row["batch"]), f"{100 * row['sparsity']:.0f} %"]
        cells += [f"{row[name]:.0f} us" for name in ["onnx dense", "burn dense"]]
        lines.append("| " + " | ".join(cells + [cell(name) for name in sparse]) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
