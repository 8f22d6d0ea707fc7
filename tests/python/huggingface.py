"""A forward pass of exported Hugging Face folders in numpy, from config.json and the weights alone.

    huggingface.py FOLDER    compares with FOLDER/expected.safetensors: `tokens`, and the `output` of our packed model
"""

import json
import sys
from math import erf, sqrt
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file


def weights_of(folder):
    index = folder / "model.safetensors.index.json"
    files = ["model.safetensors"]
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    return {name: value for file in files for name, value in load_file(folder / file).items()}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def bert(config, w, tokens):
    """The embedding of one text: mean over tokens, length one."""

    def linear(name, x):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(name, x):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + config.get("layer_norm_eps", 1e-12))
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    e = "embeddings"
    x = w[f"{e}.word_embeddings.weight"][tokens] + w[f"{e}.position_embeddings.weight"][: len(tokens)]
    x = norm(f"{e}.LayerNorm", x + w[f"{e}.token_type_embeddings.weight"][0])
    heads, gelu = config["num_attention_heads"], np.vectorize(lambda v: v * (1 + erf(v / sqrt(2))) / 2)
    for layer in range(config["num_hidden_layers"]):
        p = f"encoder.layer.{layer}"
        parts = [linear(f"{p}.attention.self.{part}", x) for part in ("query", "key", "value")]
        q, k, v = (part.reshape(len(tokens), heads, -1).transpose(1, 0, 2) for part in parts)
        context = softmax(q @ k.transpose(0, 2, 1) / sqrt(q.shape[-1])) @ v
        context = context.transpose(1, 0, 2).reshape(len(tokens), -1)
        x = norm(f"{p}.attention.output.LayerNorm", x + linear(f"{p}.attention.output.dense", context))
        inner = gelu(linear(f"{p}.intermediate.dense", x))
        x = norm(f"{p}.output.LayerNorm", x + linear(f"{p}.output.dense", inner))
    mean = x.mean(0)
    return mean / np.linalg.norm(mean)


def llama(config, w, tokens):
    """The logarithms of the probabilities of the next token."""
    heads, shared = config["num_attention_heads"], config["num_key_value_heads"]
    count, half = len(tokens), config["head_dim"] // 2
    angles = np.outer(np.arange(count), config["rope_theta"] ** (-np.arange(half) / half))

    def norm(name, x):
        root = np.sqrt((x * x).mean(-1, keepdims=True) + config.get("rms_norm_eps", 1e-6))
        return x / root * w[f"{name}.weight"]

    def turned(x):
        a, b = x[..., :half], x[..., half:]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config["num_hidden_layers"]):
        p = f"model.layers.{layer}"
        y = norm(f"{p}.input_layernorm", x)

        def split(name, n):
            return (y @ w[f"{p}.self_attn.{name}.weight"].T).reshape(count, n, -1).transpose(1, 0, 2)

        q, k, v = turned(split("q_proj", heads)), turned(split("k_proj", shared)), split("v_proj", shared)
        k, v = (np.repeat(part, heads // shared, 0) for part in (k, v))
        scores = q @ k.transpose(0, 2, 1) / sqrt(2 * half)
        scores[:, np.triu_indices(count, 1)[0], np.triu_indices(count, 1)[1]] = -np.inf
        context = (softmax(scores) @ v).transpose(1, 0, 2).reshape(count, -1)
        x = x + context @ w[f"{p}.self_attn.o_proj.weight"].T
        y = norm(f"{p}.post_attention_layernorm", x)
        gate, up = (y @ w[f"{p}.mlp.{name}.weight"].T for name in ("gate_proj", "up_proj"))
        x = x + (gate / (1 + np.exp(-gate)) * up) @ w[f"{p}.mlp.down_proj.weight"].T
    last = norm("model.norm", x)[-1]
    return np.log(softmax(w["model.embed_tokens.weight"] @ last))


def main():
    folder = Path(sys.argv[1])
    config, w = json.loads((folder / "config.json").read_text()), weights_of(folder)
    w = {name: value.astype(np.float64) for name, value in w.items()}
    expected = load_file(folder / "expected.safetensors")
    forward = {"bert": bert, "llama": llama}[config["model_type"]]
    found = forward(config, w, expected["tokens"])
    difference = float(np.abs(found - expected["output"]).max())
    zeros = sum(int((v == 0).sum()) for name, v in w.items() if ".layer" in name and v.ndim == 2)
    assert zeros > 0, "nothing is pruned"
    assert found.shape == expected["output"].shape and difference < 1e-5, difference
    print(f"{config['model_type']}: largest difference {difference:.1e}")


main()
