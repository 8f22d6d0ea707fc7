#!/usr/bin/env bash
# Tests the CPU kernels on another target than this machine's: `tests/targets.sh wasm32-wasip1`, under Node, or
# `tests/targets.sh aarch64-unknown-linux-gnu`, under QEMU. Every kernel is compared with sums in float64.
set -euo pipefail
cd "$(dirname "$0")/.."
tests=()
case $1 in
wasm32-wasip1)
    export CARGO_TARGET_WASM32_WASIP1_RUSTFLAGS="-C target-feature=+simd128"
    # With threads of its own, Node 20 crashes when a program ends that has run for long enough to be compiled anew.
    export CARGO_TARGET_WASM32_WASIP1_RUNNER="node --single-threaded --no-warnings $PWD/tests/wasi.mjs"
    # There are no threads.
    tests=(--test-threads=1)
    ;;
aarch64-unknown-linux-gnu)
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
    export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L /usr/aarch64-linux-gnu"
    ;;
*)
    echo "usage: $0 wasm32-wasip1|aarch64-unknown-linux-gnu" >&2
    exit 2
    ;;
esac
cargo test --release -p burn-sparse-cpu --target "$1" -- "${tests[@]}"
