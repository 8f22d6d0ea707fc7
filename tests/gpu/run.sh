#!/usr/bin/env bash
# On a machine with an NVIDIA driver and CUDA's headers: the tests, then the measurements.
#
#     tests/gpu/run.sh BUNDLE.tar.xz [RESULTS]
#
# RESULTS (a folder, `gpu-results` by default) gets one log for each test and one JSON file for each
# measurement. Where PyTorch is installed, cuBLAS is timed on the same shapes.
set -euo pipefail
bundle=$(realpath "$1")
results=$(mkdir -p "${2:-gpu-results}" && realpath "${2:-gpu-results}")
export CUDA_PATH=${CUDA_PATH:-/usr/local/cuda} RUST_BACKTRACE=0
if [ ! -f "$CUDA_PATH/include/cuda_runtime.h" ]; then
    echo "CUDA_PATH=$CUDA_PATH holds no include/cuda_runtime.h: set it to the folder of CUDA's headers" >&2
    exit 1
fi
export LD_LIBRARY_PATH=$CUDA_PATH/lib64${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tar -C "$folder" -xJf "$bundle"
cd "$folder/burn-sparse-gpu"
nvidia-smi --query-gpu=name,driver_version,clocks.max.sm --format=csv >"$results/machine.csv"

failed=0
for test in portable tensor_core operators choice; do
    if ./$test --test-threads=1 >"$results/$test.log" 2>&1; then
        echo "$test: passed"
    else
        echo "$test: FAILED, see $results/$test.log"
        failed=1
    fi
done

# The sparse kernels, also where the dense product would be chosen.
export BURN_SPARSE_COSTS=built-in
bench() {
    local name=$1
    shift
    if ./burn-sparse bench --device cuda:0 --json "$@" >"$results/$name.json" 2>"$results/$name.log"; then
        echo "$name: measured"
    else
        echo "$name: FAILED, see $results/$name.log"
        failed=1
    fi
}
shapes=4096x4096,14336x4096
bench large-v64 --dtype bf16 --shape $shapes --pattern 'shfl-bw(vector=64)' --sparsity 0.75,0.9 --batch 1024,4096
bench large-v128 --dtype bf16 --shape $shapes --pattern 'shfl-bw(vector=128)' --sparsity 0.75,0.9 --batch 1024,4096
bench decode --dtype bf16 --shape $shapes --pattern 'shfl-bw(vector=64),balanced(block=32)' \
    --sparsity 0.75,0.9 --batch 1,8,16
bench f32 --shape 4096x4096 --pattern 'shfl-bw(vector=32),balanced(block=32)' --sparsity 0.75,0.9 --batch 1,16,1024
if python3 -c 'import torch' 2>/dev/null; then
    python3 dense.py $shapes 1,8,16,1024,4096 >"$results/cublas.json" && echo "cublas: measured"
fi
exit $failed
