#!/usr/bin/env python3
"""Trains a recipe on several numbers of ranks, and prints a Markdown table.

usage: measure.py BURN_SPARSE RANKS RUNS RECIPE [ARGUMENT ...]

BURN_SPARSE is a command built with the feature `mpi`, RANKS as in 1,2,4, and RUNS a folder for the runs. The arguments go to
`burn-sparse train`. All ranks share this machine's cores.
"""
import json
import os
import subprocess
import sys
from pathlib import Path


def train(program, ranks, folder, arguments):
    launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks)]
    command = [*launcher, program, "train", *arguments, "--run-dir", str(folder), "--json"]
    if ranks == 1:
        command = command[len(launcher) :]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    report = json.loads(done.stdout)
    epochs = [json.loads(line) for line in (folder / "epochs.jsonl").read_text().splitlines()]
    return report, epochs


def mean(epochs, form):
    """Mean of a step's seconds, megabytes and share in messages over the epochs that have the form."""
    steps = [epoch["steps"] for epoch in epochs if epoch["steps"].get(form)]
    if not steps:
        return "-"
    seconds = sum(step[form] for step in steps) / len(steps)
    text = f"{1e3 * seconds:.1f} ms"
    traffic = [step[f"{form}_traffic"] for step in steps if f"{form}_traffic" in step]
    if traffic:
        share = sum(one["share"] for one in traffic) / len(traffic)
        text += f", {traffic[0]['bytes'] / 1e6:.2f} MB, {100 * share:.0f} %"
    return text


def main():
    program, ranks, runs, *arguments = sys.argv[1:]
    os.environ.setdefault("BURN_SPARSE_COSTS", "built-in")
    rows, hashes = [], None
    for count in map(int, ranks.split(",")):
        report, epochs = train(program, count, Path(runs) / f"{Path(arguments[0]).stem}-{count}", arguments)
        masks = [layer["mask_hash"] for layer in report["layers"] if layer["mask_hash"]]
        hashes = hashes or masks
        same = sum(here == there for here, there in zip(masks, hashes))
        metric, dense = report["metric"], report["dense_metric"]
        losses = [epoch["loss"] for epoch in epochs if epoch["phase"] == "dense"]
        rows.append([
            count,
            f"{losses[-1]:.4f}" if losses else "-",
            f"{dense['value']:.4f}",
            f"{metric['value']:.4f}",
            f"{same} of {len(masks)}",
            mean(epochs, "masked"),
            mean(epochs, "packed"),
            f"{report['seconds']:.0f}",
        ])
    name = report["metric"]["name"]
    heading = ["ranks", "dense loss", f"dense {name}", name, "masks of one rank", "masked step", "packed step", "seconds"]
    for row in [heading, ["---"] * len(heading), *rows]:
        print("| " + " | ".join(map(str, row)) + " |")


main()
