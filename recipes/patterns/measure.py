#!/usr/bin/env python3
"""Prunes a Hugging Face folder in one shot to patterns of the literature, and prints a Markdown table.

usage: measure.py BURN_SPARSE MODEL FOLDER DATA [SPARSITY ...]

BURN_SPARSE is the command, MODEL a sentence embedder's folder, FOLDER one for the pruned models, and DATA the folder of the data
sets. Patterns that the command has are pruned by it; the others are projected here, by magnitude, as their papers define them:

* V:N:M (VENOM, SC'23): in every block of V rows and M columns the 4 columns are kept, of all choices, whose rows keep most with two
  of these four;
* tile-wise (SC'20): columns of the whole matrix, then the inputs of every 128 outputs, equal shares of both;
* unaligned vectors (arXiv 2407.19644): 32 outputs of one input anywhere, not only at multiples of 32; the best for one price of a
  vector, by dynamic programming over each input, at the price that meets the sparsity;
* complementary (TMLR'23): of the weights of a row at the same distance from each other, one is kept;
* column-balanced blocks (FPGA'23): blocks of 32 outputs of one input, as many in each group of 32 inputs;
* inputs permuted (Pool and Yu, NeurIPS'21): balanced blocks, of 4 or 32 inputs, after exchanges of inputs between blocks that keep
  more; only where the layer before can permute its outputs for nothing, in the second product of a feed-forward and after attention
  (within a head).

Needs numpy and safetensors.
"""
import itertools
import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

V = 32


def vnm(weight, sparsity, _):
    """V:2:M; the sparsity decides M."""
    width = round(2 / (1 - sparsity))
    rows, columns = weight.shape
    keep = np.zeros(weight.shape, bool)
    choices = np.array(list(itertools.combinations(range(width), 4)))
    for row in range(0, rows, V):
        block = weight[row : row + V, : columns // width * width]
        block = np.abs(block).reshape(-1, columns // width, width)
        # Sum of the two largest of the four, over the rows.
        pairs = np.sort(block[:, :, choices], axis=3)[..., 2:].sum(axis=(0, 3))
        for at, best in enumerate(choices[pairs.argmax(axis=1)]):
            largest = np.argsort(-block[:, at, best], axis=1)[:, :2]
            for lane in range(block.shape[0]):
                keep[row + lane, at * width + best[largest[lane]]] = True
    return keep


def tile_wise(weight, sparsity, _, tile=128):
    share = np.sqrt(1 - sparsity)
    outputs = np.abs(weight).sum(axis=1)
    kept = np.sort(np.argsort(-outputs)[: round(share * len(outputs))])
    keep = np.zeros(weight.shape, bool)
    for at in range(0, len(kept), tile):
        rows = kept[at : at + tile]
        inputs = np.abs(weight[rows]).sum(axis=0)
        columns = np.argsort(-inputs)[: round(share * len(inputs))]
        keep[np.ix_(rows, columns)] = True
    return keep


def unaligned(weight, sparsity, _):
    rows, columns = weight.shape
    sums = np.vstack([np.zeros(columns), np.abs(weight).cumsum(axis=0)])
    vectors = sums[V:] - sums[:-V]

    def chosen(price):
        best = np.zeros((rows + 1, columns))
        taken = np.zeros((rows + 1, columns), bool)
        for end in range(1, rows + 1):
            best[end] = best[end - 1]
            if end >= V:
                value = best[end - V] + vectors[end - V] - price
                taken[end] = value > best[end]
                best[end] = np.where(taken[end], value, best[end])
        keep = np.zeros(weight.shape, bool)
        for column in range(columns):
            end = rows
            while end > 0:
                if taken[end, column]:
                    keep[end - V : end, column] = True
                    end -= V
                else:
                    end -= 1
        return keep

    low, high = 0.0, vectors.max()
    for _ in range(30):
        price = (low + high) / 2
        low, high = (price, high) if chosen(price).mean() > 1 - sparsity else (low, price)
    return chosen(high)


def complementary(weight, sparsity, _):
    rows, columns = weight.shape
    apart = round(1 / (1 - sparsity))
    segments = np.abs(weight).reshape(rows, apart, columns // apart)
    keep = segments == segments.max(axis=1, keepdims=True)
    return keep.reshape(rows, columns)


def column_balanced(weight, sparsity, _, group=32):
    rows, columns = weight.shape
    vectors = np.abs(weight).reshape(rows // V, V, columns).sum(axis=1)
    keep = np.zeros(vectors.shape, bool)
    for at in range(0, columns, group):
        part = vectors[:, at : at + group]
        best = np.argsort(-part, axis=None)[: round((1 - sparsity) * part.size)]
        keep[:, at : at + group].flat[best] = True
    return np.repeat(keep, V, axis=0)


def balanced(weight, sparsity, block=32):
    rows, columns = weight.shape
    blocks = np.abs(weight).reshape(rows, columns // block, block)
    ranks = np.argsort(np.argsort(-blocks, axis=2, kind="stable"), axis=2)
    return (ranks < round((1 - sparsity) * block)).reshape(rows, columns)


def permuted(weight, sparsity, block, group, tries=40_000):
    """The mask of balanced blocks for the best order of the inputs found, within groups of them."""
    random, kept = np.random.default_rng(0), round((1 - sparsity) * block)
    score = np.abs(weight)
    order = np.arange(weight.shape[1])

    def sums(columns):
        return np.partition(score[:, columns], block - kept, axis=1)[:, block - kept :].sum()

    blocks = len(order) // block
    held = [sums(order[at * block : (at + 1) * block]) for at in range(blocks)]
    for _ in range(tries):
        of = random.integers(len(order) // group) * (group // block)
        first, second = of + random.choice(group // block, 2, replace=False)
        i, j = first * block + random.integers(block), second * block + random.integers(block)
        order[[i, j]] = order[[j, i]]
        new = [sums(order[at * block : (at + 1) * block]) for at in (first, second)]
        if sum(new) > held[first] + held[second]:
            held[first], held[second] = new
        else:
            order[[i, j]] = order[[j, i]]
    keep = np.zeros(weight.shape, bool)
    keep[:, order] = balanced(weight[:, order], sparsity, block)
    return keep


def blocks(size):
    return lambda weight, sparsity, _: balanced(weight, sparsity, size)


def blocks_permuted(size, head=32):
    def project(weight, sparsity, name):
        group = head if "attention.output.dense" in name else weight.shape[1]
        if "output.dense" not in name or group <= size:
            return balanced(weight, sparsity, size)
        return permuted(weight, sparsity, size, group)

    return project


OURS = ["unstructured", "balanced(block=32)", "shfl-bw(vector=32)", "vector-wise(vector=32)", "block-wise(block=32)"]
THEIRS = {
    "V:N:M, V = 32": vnm,
    "tile-wise, 128": tile_wise,
    "unaligned vectors of 32": unaligned,
    "complementary": complementary,
    "column-balanced vectors of 32": column_balanced,
    "blocks of 4": blocks(4),
    "blocks of 4, inputs permuted": blocks_permuted(4),
    "blocks of 32, inputs permuted": blocks_permuted(32),
}


def run(program, *arguments):
    command = [program, *map(str, arguments)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout


def run_eval(program, folder, data):
    return json.loads(run(program, "eval", folder, "--data-dir", data, "--json"))["metric"]["value"]


def report(pattern, names, dense, pruned, metric):
    kept = sum(np.abs(pruned[name]).sum() for name in names) / sum(np.abs(dense[name]).sum() for name in names)
    zeros = sum((pruned[name] == 0).sum() for name in names) / sum(dense[name].size for name in names)
    print(f"| {pattern} | {zeros:.1%} | {kept:.3f} | {metric:.4f} |", flush=True)


def main(program, model, folder, data, *sparsities):
    model, folder = Path(model), Path(folder)
    dense = load_file(model / "model.safetensors")
    names = [name for name, value in dense.items() if value.ndim == 2 and "encoder.layer." in name]
    print("| pattern | sparsity | kept magnitude | Spearman |\n|---|---|---|---|")
    for sparsity in map(float, sparsities or ["0.5", "0.75"]):
        hinm = f"hinm(vector={V},keep=2,of=4)"
        for pattern in [*OURS, hinm]:
            if pattern == hinm and sparsity <= 0.5:
                continue
            packed, out = folder / f"{pattern}-{sparsity}", folder / f"{pattern}-{sparsity}-dense"
            for old in [packed, out]:
                shutil.rmtree(old, ignore_errors=True)
            run(program, "prune", model, "--pattern", pattern, "--sparsity", sparsity, "--out", packed)
            run(program, "export", packed, "--layout", "huggingface", "--format", "dense", "--out", out)
            report(pattern, names, dense, load_file(out / "model.safetensors"), run_eval(program, out, data))
        for pattern, project in THEIRS.items():
            out = folder / f"{pattern}-{sparsity}"
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(model, out)
            pruned = dict(dense)
            for name in names:
                pruned[name] = dense[name] * project(dense[name], sparsity, name)
            save_file(pruned, out / "model.safetensors")
            report(pattern, names, dense, pruned, run_eval(program, out, data))


main(*sys.argv[1:])
