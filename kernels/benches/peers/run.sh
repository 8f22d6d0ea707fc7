#!/usr/bin/env bash
# This machine's CPU: our packed layers beside what users would otherwise run, in one run.
#
#   kernels/benches/peers/run.sh [peers.py's options] > table.md
#   kernels/benches/peers/run.sh mnist-mlp SWEEP [mnist_mlp.py's options] > recipes/results/mnist-mlp.json
#   kernels/benches/peers/run.sh minilm DENSE PACKED... [minilm.py's options] > recipes/results/minilm.json
#   kernels/benches/peers/run.sh smollm2 DENSE PACKED... [smollm2.py's options] > recipes/results/smollm2.json
#
# The first times layers, the second the models of a sweep over MNIST's MLP, the third MiniLM's folders, the last SmolLM2's
# beside llama.cpp, which npm installs.
# Installs ONNX Runtime, MKL and DeepSparse (which needs older versions of the rest, so apart) from the
# Python registry into an environment that is thrown away. DeepSparse is under an evaluation licence.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
cd "$here/../../.."

script=peers.py
if [ "${1:-}" = mnist-mlp ]; then
    script=mnist_mlp.py
    shift
fi
cargo build --release --workspace >&2
environments=$(mktemp -d)
trap 'rm -rf "$environments"' EXIT
install=(install --quiet --disable-pip-version-check --only-binary :all:)
with_deepsparse() {
    python3 -m venv "$environments/deepsparse"
    "$environments/deepsparse/bin/pip" "${install[@]}" deepsparse==1.8.0 'numpy<2' >&2
}
if [ "${1:-}" = minilm ]; then
    shift
    with_deepsparse
    python3 -m venv "$environments/peers"
    "$environments/peers/bin/pip" "${install[@]}" onnxruntime==1.32.* onnx numpy safetensors tokenizers >&2
    "$environments/peers/bin/python" "$here/minilm.py" "$@" --deepsparse "$environments/deepsparse/bin/python" \
        --ours 'cargo bench --quiet --workspace --bench pretrained --' --eval 'target/release/burn-sparse eval'
    exit
fi
if [ "${1:-}" = smollm2 ]; then
    shift
    python3 -m venv "$environments/peers"
    "$environments/peers/bin/pip" install --quiet --disable-pip-version-check gguf==0.19.* safetensors >&2
    npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$environments" node-llama-cpp@3.22.1 >&2
    NODE_PATH="$environments/node_modules" "$environments/peers/bin/python" "$here/smollm2.py" "$@" \
        --ours 'cargo bench --quiet --workspace --bench pretrained --' --eval 'target/release/burn-sparse eval'
    exit
fi
with_deepsparse
python3 -m venv "$environments/peers"
"$environments/peers/bin/pip" "${install[@]}" onnxruntime==1.32.* onnx numpy mkl >&2
"$environments/peers/bin/python" "$here/$script" \
    --ours "${CARGO_TARGET_DIR:-target}/release/burn-sparse" \
    --deepsparse "$environments/deepsparse/bin/python" "$@"
