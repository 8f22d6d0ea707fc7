#!/usr/bin/env bash
# Runs a program that was built for CUDA on a machine without a GPU, kernels and all:
#
#     CUDA_PATH=FOLDER tests/gpu/emulate.sh COMMAND...
#
# FOLDER holds NVRTC and CUDA's headers (`lib`, `include`), as the Python packages nvidia-cuda-{nvrtc,runtime,crt,cccl}
# 13.0 bring them in `nvidia/cu13`. The driver is `tests/gpu/emulator`, which is built here.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -f "${CUDA_PATH:?the folder of NVRTC and CUDA headers}/include/cuda_runtime.h" ]; then
    echo "no include/cuda_runtime.h in $CUDA_PATH" >&2
    exit 1
fi
cargo build --quiet --release --manifest-path "$root/Cargo.toml" -p burn-sparse-cuda-emulator
libraries=$(mktemp -d)
trap 'rm -rf "$libraries"' EXIT
target=$(realpath "${CARGO_TARGET_DIR:-$root/target}")
ln -s "$target/release/libburn_sparse_cuda_emulator.so" "$libraries/libcuda.so"
# CubeCL loads NVRTC by its plain name.
for library in "$CUDA_PATH"/lib/libnvrtc.so.*; do
    ln -s "$library" "$libraries/libnvrtc.so"
    break
done
LD_LIBRARY_PATH=$libraries:$CUDA_PATH/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$@"
