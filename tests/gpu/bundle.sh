#!/usr/bin/env bash
# Builds what a machine with an NVIDIA driver, but without Rust, needs to test and measure the CUDA kernels:
#
#     tests/gpu/bundle.sh [OUT.tar.xz]        then there: tests/gpu/run.sh OUT.tar.xz RESULTS
#
# The command, the GPU tests and benchmarks of the kernels and of a whole block, stripped. The bindings are those of
# CUDA 13.0; the machine's driver must be at least as new.
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-target/burn-sparse-gpu.tar.xz}
export CUDARC_CUDA_VERSION=13000 CARGO_PROFILE_RELEASE_DEBUG=0

built=$(cargo build --release --message-format=json-render-diagnostics \
    -p burn-sparse -p burn-sparse-cli -p burn-sparse-cube -p burn-sparse-kernels \
    --features burn-sparse-cli/cuda,burn-sparse-cube/cuda,burn-sparse-kernels/cuda,burn-sparse-kernels/fusion \
    --bin burn-sparse --test portable --test tensor_core --test operators --test masks --test choice --test conv2d \
    --bench feed_forward --bench device)

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/burn-sparse-gpu"
for name in burn-sparse portable tensor_core operators masks choice conv2d feed_forward device; do
    binary=$(printf '%s\n' "$built" | python3 -c '
import json, sys
artifacts = [json.loads(line) for line in sys.stdin]
paths = [a["executable"] for a in artifacts if a.get("executable") and a["target"]["name"] == sys.argv[1]]
print(paths[-1])' "$name")
    cp "$binary" "$folder/burn-sparse-gpu/$name"
    strip "$folder/burn-sparse-gpu/$name"
done
cp tests/gpu/{dense,probes}.py "$folder/burn-sparse-gpu/"
# Half of every program is in the next one too: a dictionary that reaches there makes one of them.
tar -C "$folder" -c burn-sparse-gpu | xz --lzma2=preset=6,dict=256MiB >"$out"
ls -l "$out" | awk '{ printf "%s: %.1f MB\n", $NF, $5 / 1e6 }'
