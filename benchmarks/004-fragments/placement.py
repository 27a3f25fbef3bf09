"""Our placement against the published heuristic: suppression and utility over 20 seeds.

    SHERD_DATA=… python benchmarks/004-fragments/placement.py [--seeds 20]

Constraints, fragments, group sizes and queries are those of ``two.yaml`` and ``three.yaml``.
``nearest`` is the heuristic of Figures 8 and 9, mended, with all groups in its window and
the same budget of tries as ours; ``nearest, all attributes`` is the same, ordering by every
attribute of the workload instead of the two to be kept similar. A second row gives it eight
times the budget.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from ipums import Case, case, utilities

from sherd.fragments.association import Search, associate
from sherd.randomness import Randomness

NEAREST = Search(strategy="nearest", probes=0)
STRATEGIES = {
    "cells (ours)": (Search(), False),
    "nearest": (NEAREST, False),
    "nearest, budget x8": (replace(NEAREST, budget=8 * 2048), False),
    "nearest, all attributes": (NEAREST, True),
}


def measure(given: Case, search: Search, everything: bool, seed: int) -> tuple[float, list[float]]:
    """The share of tuples left out, and the utility of queries with 2, 1 and 0 ordered."""
    constraints, similar = given.constraints, given.similar
    if search.strategy == "nearest":
        if everything:
            similar = tuple(constraints.weights(similar))
        constraints = replace(constraints, workload=())
    made = associate(
        given.table, given.schema, constraints, given.fragments, given.sizes,
        similar=similar, search=search, randomness=Randomness.seeded(seed),
    )  # fmt: skip
    found = utilities(given, made.place)
    parts = [[u for ordered, u in found if ordered == number] for number in (2, 1, 0)]
    means = [float(np.mean(part)) for part in (*parts, [u for _, u in found])]
    return made.suppressed / given.table.num_rows, means + [u for _, u in found]


def main() -> None:
    """Print a table for each fragmentation."""
    options = argparse.ArgumentParser()
    options.add_argument("--seeds", type=int, default=20)
    seeds = options.parse_args().seeds
    for name in ("two", "three"):
        given = case(name)
        print(f"{name} fragments, k = 12, groups of {given.sizes}, {seeds} seeds")
        print(f"{'strategy':26}{'left out':>10}{'2 ordered':>11}{'1':>8}{'0':>8}{'all':>8}{'±':>7}")
        for label, (search, everything) in STRATEGIES.items():
            runs = [measure(given, search, everything, seed) for seed in range(seeds)]
            left = np.mean([share for share, _ in runs])
            utility = np.array([u for _, u in runs])
            mean, spread = utility.mean(axis=0), utility.std(axis=0)
            print(
                f"{label:26}{left:>10.4%}{mean[0]:>11.3f}{mean[1]:>8.3f}{mean[2]:>8.3f}"
                f"{mean[3]:>8.3f}{spread[3]:>7.3f}"
            )
            print(" " * 10 + "by query: " + " ".join(f"{u:.2f}" for u in mean[4:]), flush=True)


if __name__ == "__main__":
    main()
