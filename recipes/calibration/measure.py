#!/usr/bin/env python3
"""Prunes a Hugging Face folder in one shot by calibration, for a grid of patterns, sparsities and methods.

usage: measure.py BURN_SPARSE MODEL TEXT DATA RESULTS [--samples N] [--sparsities 0.5,0.75] [--patterns NAME,...]
                  [--methods NAME,...] [--seeds 1] [--options "NAME=--toward-dense 1 --damp 0.001" ...] [--text FILE] [--table]

BURN_SPARSE is the command, MODEL a folder, TEXT what calibrates it, DATA the folder of the data sets. RESULTS gets one JSON line for
each cell; cells that it has are not measured again. With --table nothing is measured: the Markdown tables are printed.

Methods are a score and, after a plus, repair: magnitude, wanda, obs, magnitude+repair, wanda+repair, obs+repair. Magnitude alone
runs without calibration. --options adds options of `burn-sparse prune` to a pattern's cells (NAME is a pattern's kind, or "all");
--text is `eval`'s.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PATTERNS = {
    "unstructured": "unstructured",
    "balanced(32)": "balanced(block=32)",
    "2 of 4": "n-of-m(keep=2,of=4)",
    "shfl-bw(4)": "shfl-bw(vector=4)",
    "shfl-bw(8)": "shfl-bw(vector=8)",
    "shfl-bw(16)": "shfl-bw(vector=16)",
    "shfl-bw(32)": "shfl-bw(vector=32)",
    "vector-wise(32)": "vector-wise(vector=32)",
}
METHODS = ["magnitude", "magnitude+repair", "wanda", "wanda+repair", "obs", "obs+repair"]


def command(*arguments):
    """Runs burn-sparse and returns its JSON."""
    run = subprocess.run([*arguments, "--json"], capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"{' '.join(arguments)}\n{run.stderr}")
    return json.loads(run.stdout)


def measure(args, cell):
    """Returns the metric of one cell and the seconds that pruning took."""
    score, _, repair = cell["method"].partition("+")
    extra = [word for name in ("all", cell["pattern"].partition("(")[0]) for word in args.options.get(name, "").split()]
    if not repair and "--toward-dense" in extra:
        # Refused without a repair to aim.
        at = extra.index("--toward-dense")
        del extra[at : at + 2]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "pruned"
        calibrate = ["--calibrate", args.calibrate, "--samples", str(args.samples), "--score", score]
        calibrate += [*(["--repair"] if repair else []), *extra]
        start = time.monotonic()
        command(
            args.command, "prune", args.model, "--pattern", PATTERNS[cell["pattern"]], "--sparsity", str(cell["sparsity"]),
            "--seed", str(cell["seed"]), *([] if cell["method"] == "magnitude" else calibrate), "--out", str(out),
        )  # fmt: skip
        seconds = time.monotonic() - start
        text = ["--text", args.text] if args.text else []
        found = command(args.command, "eval", str(out), "--data-dir", args.data, *text)
    samples = {} if cell["method"] == "magnitude" else {"samples": args.samples}
    return {**cell, **samples, "metric": found["metric"]["value"], "seconds": seconds}


def table(rows, samples):
    """Prints a table for each sparsity: a row for each pattern, a column for each method. Cells calibrated by another number of
    samples are marked."""
    methods = [m for m in METHODS if any(r["method"] == m for r in rows)]
    for sparsity in sorted({r["sparsity"] for r in rows}):
        print(f"\n| {sparsity * 100:.0f} % | " + " | ".join(methods) + " | seconds |")
        print("|---" * (len(methods) + 2) + "|")
        for pattern in PATTERNS:
            cells, last = [], None
            for method in methods:
                found = [r for r in rows if (r["pattern"], r["sparsity"], r["method"]) == (pattern, sparsity, method)]
                values = [r["metric"] for r in found]
                if not values:
                    cells.append("")
                    continue
                # Cells that other programs interrupted have none.
                last = statistics.median(seconds) if (seconds := [r["seconds"] for r in found if "seconds" in r]) else last
                spread = f" ± {shown(statistics.stdev(values), values[0])}" if len(values) > 1 else ""
                mark = "°" if any(r.get("samples", samples) != samples for r in found) else ""
                cells.append(shown(statistics.mean(values), values[0]) + spread + mark)
            if any(cells):
                print(f"| {pattern} | " + " | ".join(cells) + f" | {'' if last is None else round(last)} |")


def shown(value, like):
    """Writes a correlation with four digits, a perplexity with three significant ones."""
    return f"{value:.4f}" if like < 1.5 else f"{value:.1f}" if like < 1000 else f"{value:.2g}"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    for name in ("command", "model", "calibrate", "data", "results"):
        parser.add_argument(name)
    parser.add_argument("--samples", type=int, default=1024)
    parser.add_argument("--sparsities", default="0.5,0.6,0.75")
    parser.add_argument("--patterns", default=",".join(PATTERNS))
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--options", action="append", default=[])
    parser.add_argument("--text")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    args.options = dict(option.split("=", 1) for option in args.options)
    results = Path(args.results)
    rows = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
    if args.table:
        return table(rows, args.samples)
    done = {(r["pattern"], r["sparsity"], r["method"], r["seed"]) for r in rows}
    for seed in range(args.seeds):
        for sparsity in map(float, args.sparsities.split(",")):
            for pattern in args.patterns.split(","):
                for method in args.methods.split(","):
                    # Two of four has one sparsity.
                    if (pattern, sparsity, method, seed) in done or (pattern == "2 of 4" and sparsity != 0.5):
                        continue
                    row = measure(args, {"pattern": pattern, "sparsity": sparsity, "method": method, "seed": seed})
                    print(json.dumps(row), flush=True)
                    with results.open("a") as file:
                        file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
