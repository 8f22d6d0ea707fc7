#!/usr/bin/env python3
"""Predicts the step of data-parallel training from measured times of one machine, for up to 1024 ranks.

usage: simulate.py [SECONDS_MASKED SECONDS_PACKED MEGABYTES_MASKED MEGABYTES_PACKED]

The numbers are those of one step of one rank; the default is MiniLM's recipe on two cores (results/ranks.md).
A model of 7 billion parameters is extrapolated from SmolLM2's packed step, as the output says.

A rank's step takes its measured seconds, spread at random; the slowest rank decides when sums begin. Sums
are made in pieces of 32 MB, one after the other as the code does, by the faster of two algorithms: a ring, which moves
2 (n - 1) / n of a piece through every link in 2 (n - 1) messages, or recursive doubling, which moves a whole piece log2(n)
times. Links are used by one message at a time.
"""
import math
import random
import sys

PIECE = 4 * 8 * 2**20
# Assumed standard deviation of a rank's step, beside its mean.
SPREAD = 0.05
RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
# Name, bytes per second and seconds of latency of a link, as MPI sees them.
NETWORKS = [("1 GbE", 0.117e9, 50e-6), ("10 GbE", 1.17e9, 30e-6), ("100 Gb/s InfiniBand", 12e9, 2e-6)]


def all_reduce(size, ranks, bandwidth, latency):
    if ranks == 1:
        return 0.0
    def piece(bytes):
        ring = 2 * (ranks - 1) * (latency + bytes / ranks / bandwidth)
        doubling = math.ceil(math.log2(ranks)) * (latency + bytes / bandwidth)
        return min(ring, doubling)
    whole, rest = divmod(size, PIECE)
    return whole * piece(PIECE) + piece(rest)


def slowest(seconds, ranks, random):
    """Mean over steps of the slowest rank's seconds."""
    steps = 200
    draw = lambda: max(random.gauss(seconds, SPREAD * seconds) for _ in range(ranks))
    return sum(draw() for _ in range(steps)) / steps


def table(seconds, size):
    """Rows of ranks, and of every network: steps per second times ranks, beside one rank; share of messages."""
    generator, compute = random.Random(0), {}
    for ranks in RANKS:
        compute[ranks] = slowest(seconds, ranks, generator)
    for ranks in RANKS:
        cells = []
        for _, bandwidth, latency in NETWORKS:
            messages = all_reduce(size, ranks, bandwidth, latency)
            step = compute[ranks] + messages
            cells.append((ranks * compute[1] / step, messages / step))
        yield ranks, cells


def show(name, forms):
    print(f"\n{name}\n")
    heading = ["ranks"] + [f"{network[0]}, {form}" for network in NETWORKS for form, *_ in forms]
    print("| " + " | ".join(heading) + " |")
    print("|" + "---|" * len(heading))
    tables = [list(table(seconds, size)) for _, seconds, size in forms]
    for rows in zip(*tables):
        ranks = rows[0][0]
        cells = [str(ranks)]
        for network in range(len(NETWORKS)):
            for _, found in rows:
                speedup, share = found[network]
                cells.append(f"{speedup:.1f}× ({100 * share:.0f} %)")
        print("| " + " | ".join(cells) + " |")
    for form, seconds, size in forms:
        for network, bandwidth, latency in NETWORKS:
            over = [ranks for ranks, cells in table(seconds, size)
                    if cells[[n[0] for n in NETWORKS].index(network)][1] > 0.5]
            first = f"from {over[0]} ranks on" if over else "never"
            print(f"- {form}, {network}: messages take more than half of a step {first}")


def main():
    given = [float(argument) for argument in sys.argv[1:]] or [0.244, 0.110, 42.59, 10.74]
    masked, packed, masked_mb, packed_mb = given
    print("Times as fast as one rank with the same batch per rank; in brackets the share of a step in messages.")
    show(
        f"MiniLM, masked ({1e3 * masked:.0f} ms, {masked_mb:.1f} MB) and packed ({1e3 * packed:.0f} ms, {packed_mb:.1f} MB)",
        [("masked", masked, 1e6 * masked_mb), ("packed", packed, 1e6 * packed_mb)],
    )
    # SmolLM2 with 135 million parameters: 5.8 s of a packed step of 1024 tokens on two cores; masked steps take as many times
    # longer as MiniLM's. A rank is a machine of 64 such pairs of cores that reaches 70 % of their sum, with 8192 tokens.
    ratio = masked / packed
    step = 5.8 * (7e9 / 135e6) * (8192 / 1024) / (64 * 0.7)
    size = 4 * 7e9
    show(
        f"7 billion parameters, 8192 tokens per rank, masked ({ratio * step:.0f} s, 28 GB) and packed ({step:.0f} s, 7 GB)",
        [("masked", ratio * step, size), ("packed", step, size / 4)],
    )


main()
