#!/usr/bin/env bash
# On a machine with an NVIDIA driver and CUDA's headers: the tests, then the measurements.
#
#     tests/gpu/run.sh BUNDLE.tar.xz RESULTS [STEP...]
#
# RESULTS (a folder) gets one log for each test and one JSON file (text, of the feed-forward block) for each
# measurement, as they end. Steps are tests, kernels, profile, command, speeds and probes; tests, command and speeds by
# default. Where PyTorch is installed, cuBLAS is timed on the same shapes, before and after; `profile` needs Nsight
# Compute (`ncu`), `probes` nvcc. Where PACKED names a file, it always holds what there is so far, as .tar.gz: of a
# machine that gives few files back, or ends a command before its end.
set -uo pipefail
bundle=$(realpath "$1")
results=$(mkdir -p "$2" && realpath "$2")
PACKED=${PACKED:+$(realpath -m "$PACKED")}
shift 2
[ $# -gt 0 ] || set -- tests command speeds

# CubeCL looks for headers under CUDA_PATH; the libraries may come with PyTorch instead.
wheels=$(python3 -c 'import nvidia; print(list(nvidia.__path__)[0])' 2>/dev/null)
compiler=$(command -v nvcc)
for folder in "${CUDA_PATH:-}" /usr/local/cuda /opt/cuda \
    "${compiler:+$(dirname "$(dirname "$(readlink -f "$compiler")")")}" "${wheels:+$wheels/cu13}"; do
    if [ -n "$folder" ] && [ -f "$folder/include/cuda_runtime.h" ]; then
        export CUDA_PATH=$folder
        break
    fi
done
if [ ! -f "${CUDA_PATH:-}/include/cuda_runtime.h" ]; then
    echo "no include/cuda_runtime.h: set CUDA_PATH to the folder of CUDA's headers" >&2
    exit 1
fi
export RUST_BACKTRACE=0
# PyTorch brings libraries of its own: this path is not for it.
libraries=$CUDA_PATH/lib64:$CUDA_PATH/lib${wheels:+:$wheels/cu13/lib}${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
ours() { LD_LIBRARY_PATH=$libraries timeout -k 5 "$@"; }

# What there is so far; a reader never finds half of it.
pack() {
    [ -n "$PACKED" ] || return 0
    tar -C "$results" -czf "$PACKED.new" . 2>/dev/null && mv "$PACKED.new" "$PACKED"
}
folder=$(mktemp -d)
trap 'kill "${packer:-}" 2>/dev/null; pack; rm -rf "$folder"' EXIT
while sleep 15; do pack; done >/dev/null 2>&1 &
packer=$!
tar -C "$folder" -xJf "$bundle" || python3 -m tarfile -e "$bundle" "$folder" || exit 1
cd "$folder/burn-sparse-gpu" || exit 1
nvidia-smi -q -d CLOCK,POWER,MEMORY >"$results/machine.txt" 2>&1
nvidia-smi --query-gpu=name,driver_version --format=csv,noheader

failed=0
# NAME SECONDS COMMAND...: one result, or the reason why there is none.
result() {
    local name=$1
    shift
    if ours "$@" >"$results/$name.json" 2>"$results/$name.log"; then
        echo "$name: done"
    else
        echo "$name: FAILED, see $name.log: $(tail -n 1 "$results/$name.log" | cut -c1-200)"
        failed=1
    fi
}

# Every test in a process of its own: a device that has failed once fails whatever follows there.
tests() {
    export results libraries
    for test in portable tensor_core operators masks choice conv2d; do
        ours 60 ./$test --list --format terse | sed -n 's/: test$//p' | sed "s/^/$test /"
    done | xargs -P "$(nproc)" -L 1 bash -c '
        started=$SECONDS
        LD_LIBRARY_PATH=$libraries timeout -k 5 240 ./"$0" --exact "$1" >"$results/$0.$1.log" 2>&1
        code=$?
        [ $code -eq 0 ] && word=passed || word="FAILED ($code)"
        echo "$0 $1: $word, $((SECONDS - started)) s"
        exit $code' || failed=1
}

# What people run: a model trained and evaluated there, and evaluated on the CPU.
command_runs() {
    result train 120 ./burn-sparse train --device cuda:0 --run-dir "$folder/run" --json
    result eval-cuda 60 ./burn-sparse eval "$folder/run" --device cuda:0 --json
    result eval-cpu 60 ./burn-sparse eval "$folder/run" --json
}

cublas() {
    if python3 -c 'import torch' 2>/dev/null; then
        timeout -k 5 150 python3 dense.py $large,$square 1,8,16,32,64,256,1024,4096 bf16 \
            >"$results/cublas-$1.json" 2>"$results/cublas-$1.log" && echo "cublas-$1: done"
    fi
}

large=14336x4096
square=4096x4096
bench=(./burn-sparse bench --device cuda:0 --json --sparsity 0.75,0.9)

# The layers of DESIGN's H200 rows first.
speeds() {
    cublas speeds-before
    # The sparse kernels, also where the dense product would be chosen.
    export BURN_SPARSE_COSTS=built-in
    for vector in 64 128; do
        for shape in $large $square; do
            result "large-$shape-v$vector" 90 "${bench[@]}" --values bf16 --shape $shape \
                --pattern "shfl-bw(vector=$vector)" --batch 1024,4096
        done
    done
    for pattern in 'shfl-bw(vector=64)' 'balanced(block=32)'; do
        for shape in $large $square; do
            result "decode-$shape-${pattern%%(*}" 90 "${bench[@]}" --values bf16 --shape $shape \
                --pattern "$pattern" --batch 1,8,16,32
        done
    done
    result "between-$square" 90 "${bench[@]}" --values bf16 --shape $square --pattern 'shfl-bw(vector=64)' --batch 64,256
    result "narrow-groups-$square" 90 "${bench[@]}" --values bf16 --shape $square --pattern 'shfl-bw(vector=32)' \
        --batch 16,1024
    result "f32-$square" 90 "${bench[@]}" --shape $square --pattern 'shfl-bw(vector=32),balanced(block=32)' \
        --batch 1,16,1024
    # Two layers with GELU between them, transposed and not.
    result feed-forward 240 ./feed_forward shfl-bw
    unset BURN_SPARSE_COSTS
    # What `select` measures and takes where nobody decides; the log has the time of every kernel and tile.
    RUST_LOG=burn_sparse_kernels=debug result "chosen-$square" 120 "${bench[@]}" --values bf16 --shape $square \
        --pattern 'shfl-bw(vector=64),balanced(block=32)' --batch 1,16,64,256,1024
    RUST_LOG=burn_sparse_kernels=debug result "chosen-$large" 120 "${bench[@]}" --values bf16 --shape $large \
        --pattern 'shfl-bw(vector=64),shfl-bw(vector=128)' --batch 16,1024,4096
    cublas speeds-after
}

# The kernels alone, replayed from graphs of the device; cuBLAS, from graphs too, before and after. TILES adds tiles of
# `wgmma` to those that dispatch considers.
kernels() {
    cublas kernels-before
    for shape in $large $square; do
        result "kernels-$shape" 150 ./device $shape shfl-bw-64,shfl-bw-128 0.75,0.9 4096,1024,256,64,16,1 ${TILES:-}
    done
    result "kernels-tiled-$square" 60 ./device $square balanced-32,hinm-32 0.75,0.9 1,16,1024
    cublas kernels-after
}

# What bounds the tiles: everything that Nsight Compute counts in one launch.
profile() {
    for vector in 64 128; do
        result "ncu-$large-v$vector" 60 ncu --clock-control none --set full --kernel-name regex:wgmma_kernel \
            --launch-count 1 --kill yes ./device $large shfl-bw-$vector 0.75 4096
    done
}

for step in "$@"; do
    case $step in
    tests) tests ;;
    command) command_runs ;;
    speeds) speeds ;;
    kernels) kernels ;;
    profile) profile ;;
    probes) result probes 120 python3 probes.py ;;
    *) echo "unknown step $step: tests, kernels, profile, command, speeds or probes" >&2 && exit 1 ;;
    esac
done
exit $failed
