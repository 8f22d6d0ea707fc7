"""The other side of the interchange: numpy and safetensors alone, nothing of ours.

    interchange.py write FOLDER    weights as PyTorch and compressed-tensors save them, and what they compute
    interchange.py check FOLDER    recomputes, from what we exported, what our packed layers computed
    interchange.py golden FOLDER   reads our packed files by their specification alone
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

LAYERS = {"fc1": (256, 784), "fc2": (256, 256), "head": (10, 256)}


def forward(weights, x):
    for name in ("fc1", "fc2"):
        x = np.maximum(x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"], 0)
    return x @ weights["head.weight"].T + weights["head.bias"]


def close(found, expected, what):
    scale = max(1.0, float(np.abs(expected).max()))
    difference = float(np.abs(found - expected).max()) / scale
    assert found.shape == expected.shape, f"{what}: {found.shape}, expected {expected.shape}"
    assert difference < 1e-5, f"{what}: outputs differ by {difference}"
    print(f"{what}: largest difference {difference:.1e}")


def compress(weight):
    """`sparse-bitmask` of compressed-tensors (BitmaskTensor.from_dense), in numpy."""
    kept = weight != 0
    counts = kept.sum(axis=-1)
    return {
        "shape": np.array(weight.shape, dtype=np.int64),
        "compressed": weight[kept],
        "bitmask": np.packbits(kept, axis=-1, bitorder="little"),
        "row_offsets": (np.cumsum(counts) - counts).astype(np.int64),
    }


def decompress(tensors, layer):
    """BitmaskTensor.decompress, in numpy."""
    shape = tuple(tensors[f"{layer}.shape"])
    kept = np.unpackbits(
        tensors[f"{layer}.bitmask"], axis=-1, count=shape[-1], bitorder="little"
    ).astype(bool)
    weight = np.zeros(shape, dtype=tensors[f"{layer}.compressed"].dtype)
    weight[kept] = tensors[f"{layer}.compressed"]
    counts = kept.sum(axis=-1)
    assert (tensors[f"{layer}.row_offsets"] == np.cumsum(counts) - counts).all()
    return weight


def write(folder):
    random = np.random.default_rng(0)
    weights = {}
    for name, (outputs, inputs) in LAYERS.items():
        weight = random.normal(size=(outputs, inputs)).astype(np.float32) / np.sqrt(inputs)
        if name != "head":
            weight[random.random(weight.shape) < 0.7] = 0
        weights[f"{name}.weight"] = weight.astype(np.float32)
        weights[f"{name}.bias"] = random.normal(size=outputs).astype(np.float32)
    x = random.normal(size=(5, 784)).astype(np.float32)
    # As `torch.nn.Sequential` names its modules.
    names = {"fc1": "net.0", "fc2": "net.2", "head": "net.4"}
    renamed = {
        f"{names[key.split('.')[0]]}.{key.split('.')[1]}": value for key, value in weights.items()
    }
    renamed["net.1.num_batches_tracked"] = np.array([3], dtype=np.int64)
    save_file(renamed, folder / "pytorch.safetensors", metadata={"format": "pt"})
    compressed = {}
    for key, value in weights.items():
        if key in ("fc1.weight", "fc2.weight"):
            parts = compress(value)
            compressed |= {f"{key.split('.')[0]}.{part}": parts[part] for part in parts}
        else:
            compressed[key] = value
    save_file(compressed, folder / "bitmask.safetensors", metadata={"format": "pt"})
    save_file({"x": x, "y": forward(weights, x)}, folder / "expected.safetensors")


def check(folder):
    computed = load_file(folder / "computed.safetensors")
    x, y = computed["x"], computed["y"]
    dense = load_file(folder / "dense.safetensors")
    assert dense["fc1.weight"].shape == (256, 784), dense["fc1.weight"].shape
    zeros = float((dense["fc1.weight"] == 0).mean())
    assert zeros == 0.75, f"fc1.weight has {zeros} zeros"
    close(forward(dense, x), y, "dense export in PyTorch's layout")
    tensors = load_file(folder / "exported-bitmask.safetensors")
    restored = {key: value for key, value in tensors.items() if key.endswith((".bias", "head.weight"))}
    for layer in ("fc1", "fc2"):
        restored[f"{layer}.weight"] = decompress(tensors, layer)
        assert (restored[f"{layer}.weight"] == dense[f"{layer}.weight"]).all()
    close(forward(restored, x), y, "sparse-bitmask export")
    packed = read_packed((folder / "packed.safetensors").read_bytes())
    # Burn stores `Linear` as [in, out]; the view of a packed weight is [out, in] already.
    packed["head.weight"] = packed["head.weight"].T
    for key in dense:
        assert (packed[key] == dense[key]).all(), key
    close(forward(packed, x), y, "packed file")


# Integers of values in 4 bits, by code.
LEVELS = np.array(
    [-127, -101, -80, -62, -47, -34, -21, -10, 0, 12, 24, 36, 50, 65, 84, 109], dtype=np.float32
)


def read_packed(data):
    """A reader of the packed format, made from its specification."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = header.pop("__metadata__")
    assert metadata["burn-sparse.version"] in ("1", "2", "3")

    def array(name):
        info = header.pop(name)
        start, end = info["data_offsets"]
        raw = data[8 + length + start : 8 + length + end]
        if info["dtype"] == "BF16":
            wide = np.frombuffer(raw, dtype="<u2").astype("<u4") << 16
            return wide.view("<f4").reshape(info["shape"])
        kinds = {"F32": "<f4", "F16": "<f2", "I8": "i1", "U8": "u1", "U16": "<u2", "U32": "<u4"}
        return np.frombuffer(raw, dtype=kinds[info["dtype"]]).reshape(info["shape"])

    weights = {}
    for name, parameter in json.loads(metadata["burn-sparse.tensors"]).items():
        # Integers, times the scale of their row, or of their row and block of columns.
        scales = array(f"{name}.scales") if f"{name}.scales" in header else None
        block = parameter.get("scales_block")

        def integers(name, shape):
            if block is None:
                return array(name).astype(np.float32)
            codes = array(name)
            pairs = np.stack([codes & 15, codes >> 4], axis=-1).reshape(-1)
            count = int(np.prod(shape))
            assert len(codes) == -(-count // 2) and not pairs[count:].any()
            return LEVELS[pairs[:count]].reshape(shape)

        def scale_of(cols):
            return scales[:, None] if block is None else np.repeat(scales, block, axis=1)[:, :cols]

        if "packed" not in parameter:
            weights[name] = array(name) if scales is None else integers(name, parameter["shape"])
            if scales is not None:
                # The axis of the rows comes first; the others are the columns.
                moved = np.moveaxis(weights[name], parameter["scales_axis"], 0)
                flat = moved.reshape(len(moved), -1)
                flat = (flat * scale_of(flat.shape[1])).reshape(moved.shape)
                weights[name] = np.moveaxis(flat, 0, parameter["scales_axis"])
            continue
        info = parameter["packed"]
        view = info["view"]["linear"]
        rows, cols = view["rows"], view["cols"]
        mask = np.zeros((rows, cols), dtype=bool)
        weight = np.zeros((rows, cols), dtype=np.float32)

        def values_of(shape):
            return integers(f"{name}.values", shape)

        def put(row, col, value):
            mask[row, col], weight[row, col] = True, value

        kind = info["pattern"]["kind"]
        if kind == "unstructured":
            bits = np.unpackbits(array(f"{name}.bitmask"), axis=-1, count=cols, bitorder="little")
            places = np.argwhere(bits)
            values = values_of([len(places)])
            for (row, col), value in zip(places, values, strict=True):
                put(row, col, value)
        elif kind in ("balanced", "n-of-m"):
            width = info["pattern"].get("block", info["pattern"].get("of"))
            indices = array(f"{name}.indices")
            values, per_row = values_of(indices.shape), indices.shape[1]
            for row in range(rows):
                for slot in range(per_row):
                    # Full blocks keep `kept`; the rest of a row is its short last block.
                    at = min(slot // info["kept"], (cols - 1) // width)
                    put(row, at * width + int(indices[row, slot]), values[row, slot])
        elif kind == "hinm":
            vector, keep = info["pattern"]["vector"], info["pattern"]["keep"]
            indices, columns = array(f"{name}.indices"), array(f"{name}.columns")
            order, values = array(f"{name}.row_order"), values_of(indices.shape)
            runs = values.shape[1] // keep
            for place, row in enumerate(order):
                for slot in range(values.shape[1]):
                    run = columns[place // vector * runs + slot // keep]
                    put(row, run[indices[place, slot]], values[place, slot])
        else:
            vector = info["pattern"].get("vector", info["pattern"].get("block"))
            columns, groups = array(f"{name}.columns"), -(-rows // vector)
            values = values_of([len(columns), vector])
            offsets = [group * len(columns) // groups for group in range(groups + 1)]
            if f"{name}.group_offsets" in header:
                offsets = array(f"{name}.group_offsets")
            order = range(rows)
            if f"{name}.row_order" in header:
                order = array(f"{name}.row_order")
            for place, row in enumerate(order):
                for at in range(offsets[place // vector], offsets[place // vector + 1]):
                    put(row, columns[at], values[at, place % vector])
        assert mask_hash(mask) == info["mask_hash"], f"{name}: the mask is another one"
        assert abs(1 - mask.mean() - info["sparsity"]) < 1e-12
        weights[name] = weight if scales is None else weight * scale_of(cols)
    assert not header, f"arrays that belong to nothing: {list(header)}"
    return weights


def mask_hash(mask):
    rows, cols = mask.shape
    padded = np.zeros((rows, -(-cols // 64) * 64), dtype=bool)
    padded[:, :cols] = mask
    words = np.packbits(padded, axis=-1, bitorder="little").tobytes()
    return hashlib.sha256(struct.pack("<QQ", rows, cols) + words).hexdigest()[:16]


def golden(folder):
    i = np.arange(60)
    weights = (((i * 37 + 11) % 61) / 8 - 3.75).reshape(6, 10).astype(np.float32)
    files = sorted(folder.glob("*.safetensors"))
    assert len(files) == 17, files
    for file in files:
        read = read_packed(file.read_bytes())
        kept = read["fc.weight"] != 0
        # Half a step of the largest weight, if it is stored in 8 bits; or of the largest distance of two levels.
        off = {"int8": 3.75 / 254, "int4": 3.75 * 26 / 254}.get(file.stem.rsplit("-", 1)[-1], 0)
        assert kept.any() and np.abs(read["fc.weight"] - weights)[kept].max() <= off, file
        if off:
            assert np.abs(read["embedding.weight"] - weights).max() <= off, file
    print(f"{len(files)} golden files read by the specification")


if __name__ == "__main__":
    {"write": write, "check": check, "golden": golden}[sys.argv[1]](Path(sys.argv[2]))
