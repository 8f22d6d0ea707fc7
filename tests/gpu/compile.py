"""Compiles every CUDA kernel with NVRTC and ptxas, without a GPU, and prints a Markdown table.

    python tests/gpu/compile.py FOLDER [--check TABLE]

FOLDER holds one `.cu` file per kernel and configuration, as `cargo run -p burn-sparse-cube --features
offline --example cuda_text FOLDER` writes them. NVRTC, the CUDA headers and ptxas come from the Python
packages nvidia-cuda-{nvrtc,runtime,crt,cccl,nvcc} 13.0, nvdisasm from nvidia-cuda-nvdisasm 13.2. A kernel that does
not compile, spills registers or serialises its wgmma instructions fails the run, and so does a table that differs from
the one given.
"""

import ctypes
import pathlib
import re
import subprocess
import sys
import tempfile

import nvidia

ROOT = pathlib.Path(list(nvidia.__path__)[0]) / "cu13"
TARGETS = ["sm_80", "sm_90a"]


def nvrtc():
    library = ROOT / "lib"
    # NVRTC opens its builtins by name: loaded first, they are found without LD_LIBRARY_PATH.
    for builtins in sorted(library.glob("libnvrtc-builtins.so*")):
        ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
    return ctypes.CDLL(str(sorted(library.glob("libnvrtc.so*"))[0]))


def text_of(lib, program, name):
    size = ctypes.c_size_t()
    getattr(lib, f"nvrtcGet{name}Size")(program, ctypes.byref(size))
    buffer = ctypes.create_string_buffer(size.value)
    getattr(lib, f"nvrtcGet{name}")(program, buffer)
    return buffer.value.decode()


def ptx_of(lib, source, target):
    program = ctypes.c_void_p()
    lib.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    options = [
        f"--gpu-architecture={target}",
        f"--include-path={ROOT / 'include'}",
        f"--include-path={ROOT / 'include' / 'cccl'}",
    ]
    array = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
    if lib.nvrtcCompileProgram(program, len(options), array) != 0:
        raise SystemExit(f"NVRTC, {target}:\n{text_of(lib, program, 'ProgramLog')}")
    return text_of(lib, program, "PTX")


def assemble(ptx, target):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "kernel.ptx"
        path.write_text(ptx)
        done = subprocess.run(
            [ROOT / "bin" / "ptxas", "-v", f"-arch={target}", path, "-o", path.with_suffix(".cubin")],
            capture_output=True,
            text=True,
        )
        report = done.stdout + done.stderr
        if done.returncode != 0:
            raise SystemExit(f"ptxas, {target}:\n{report}")
        disassembled = subprocess.run(
            [ROOT / "bin" / "nvdisasm", "-c", path.with_suffix(".cubin")],
            capture_output=True,
            text=True,
            check=True,
        )
    number = lambda pattern: int((re.search(pattern, report) or [0, "0"])[1])
    return {
        "registers": number(r"Used (\d+) registers"),
        "spilled": number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
        "serialised": bool(re.search(r"C75\d\d", report)),
        "loop": multiplying_loop(disassembled.stdout),
        "report": report,
    }


def multiplying_loop(sass):
    """Instructions of the loop that holds the tensor cores' instructions, or None."""
    instructions, labels = [], {}
    for line in map(str.strip, sass.splitlines()):
        if label := re.match(r"(\.L_\S+):", line):
            labels[label[1]] = len(instructions)
        elif re.match(r"/\*[0-9a-f]{4,}\*/", line):
            instructions.append(line)
    loops = []
    for end, line in enumerate(instructions):
        back = re.search(r"BRA.*`\((\.L_\S+)\)", line)
        body = instructions[labels[back[1]] : end + 1] if back and labels[back[1]] <= end else []
        if any("HGMMA" in line or "HMMA" in line for line in body):
            loops.append(len(body))
    return min(loops, default=None)


def main():
    folder, *rest = sys.argv[1:]
    lib = nvrtc()
    lines = [
        "| kernel | shared memory, bytes | registers sm_80 | registers sm_90a | spilled bytes | loop sm_90a |",
        "|---|---|---|---|---|---|",
    ]
    failed = []
    for path in sorted(pathlib.Path(folder).glob("*.cu")):
        source = path.read_text()
        shared = re.search(r"// shared memory: (\d+) bytes", source)[1]
        cells, spilled, loop = [], 0, None
        for target in TARGETS:
            if "wgmma" in path.stem and target == "sm_80":
                cells.append("–")
                continue
            found = assemble(ptx_of(lib, source, target), target)
            cells.append(str(found["registers"]))
            spilled, loop = max(spilled, found["spilled"]), found["loop"]
            if found["spilled"] or found["serialised"]:
                failed.append(f"{path.stem}, {target}:\n{found['report']}")
        lines.append(f"| {path.stem} | {shared} | {' | '.join(cells)} | {spilled} | {loop or '–'} |")
        print(lines[-1], file=sys.stderr, flush=True)
    table = "\n".join(lines)
    print(table)
    if failed:
        raise SystemExit("spilled or serialised:\n" + "\n".join(failed))
    if rest[:1] == ["--check"]:
        known = [line for line in pathlib.Path(rest[1]).read_text().splitlines() if line[:1] == "|"]
        different = sorted(set(known) ^ set(lines))
        if different:
            raise SystemExit(f"{rest[1]} and what was compiled differ in:\n" + "\n".join(different))


main()
