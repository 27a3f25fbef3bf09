"""How fast loose associations are made, in ratios measured in one run.

    python benchmarks/004-fragments/speed.py [--million] [--plain]

Prints the time for synthetic PATIENTS at k = 16 and for the IPUMS-like table at k = 12, the
growth exponent, the ratio to the plain Python version of Figures 8 and 9, and the memory
used beside the table. Times are processor times, so that a busy machine does not show.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from ipums import case
from patients import CONSTRAINTS, FRAGMENTS, SCHEMA, SIMILAR, patients
from plain import Plain

from sherd.fragments.association import associate, problem_shape
from sherd.fragments.codes import positions
from sherd.randomness import Randomness


def timed(table, schema, constraints, fragments, sizes, similar, seed=0):  # type: ignore[no-untyped-def]
    """Seconds of processor time, and the association."""
    start = time.process_time()
    made = associate(
        table, schema, constraints, fragments, sizes, similar=similar,
        randomness=Randomness.seeded(seed),
    )  # fmt: skip
    return time.process_time() - start, made


def plain_seconds(rows: int) -> tuple[float, int]:
    """The plain version on PATIENTS, sorting included."""
    table = patients(rows)
    shape = problem_shape(table, CONSTRAINTS, FRAGMENTS, (4, 4))
    start = time.process_time()
    homes = []
    for names in FRAGMENTS:
        order = np.arange(rows)
        for name in SIMILAR:
            if name in names:
                order = order[np.argsort(positions(table, SCHEMA[name])[order], kind="stable")]
        home = np.empty(rows, np.int64)
        home[order] = np.arange(rows) // 4
        homes.append(home.tolist())
    aspects = [
        (int(f), codes.tolist())
        for f, codes in zip(shape.aspect_fragment, shape.codes.T, strict=True)
    ]
    reaches = [
        (int(z), int(a)) for z, a in zip(shape.reach_source, shape.reach_aspect, strict=True)
    ]
    left_out = Plain([4, 4], homes, aspects, reaches).run()
    return time.process_time() - start, left_out


def main() -> None:
    """Print every number."""
    options = argparse.ArgumentParser()
    options.add_argument("--million", action="store_true")
    options.add_argument("--plain", action="store_true")
    given = options.parse_args()
    arguments = (SCHEMA, CONSTRAINTS, FRAGMENTS, (4, 4), SIMILAR)
    timed(patients(3000), *arguments)  # from the compile cache, or compiled now
    times = {}
    for rows in (25_000, 100_000, *((1_000_000,) if given.million else ())):
        table = patients(rows)
        found = [timed(table, *arguments, seed=seed) for seed in range(3)]
        times[rows] = min(seconds for seconds, _ in found)
        share = found[0][1].suppressed / rows
        print(f"PATIENTS {rows:>9,} tuples, k = 16: {times[rows]:.3f} s, {share:.4%} left out")
    low, high = min(times), max(times)
    exponent = math.log(times[high] / times[low]) / math.log(high / low)
    print(f"growth exponent {low:,} to {high:,}: {exponent:.3f}")
    rows = 100_000
    table = patients(rows)
    tracemalloc.start()
    timed(table, *arguments)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    print(f"memory beside the table: {peak / table.nbytes:.2f} times the table")
    if given.plain:
        seconds, left_out = plain_seconds(rows)
        print(
            f"plain Python: {seconds:.1f} s, {left_out / rows:.4%} left out; "
            f"ratio {seconds / times[rows]:.0f}"
        )
    if os.environ.get("SHERD_DATA"):
        for name in ("two", "three"):
            ipums = case(name)
            found = [timed(*ipums.arguments, seed=seed) for seed in range(3)]
            seconds = min(seconds for seconds, _ in found)
            print(
                f"IPUMS-like, {name} fragments, k = 12: {seconds:.3f} s, "
                f"{found[0][1].suppressed / ipums.table.num_rows:.4%} left out"
            )


if __name__ == "__main__":
    main()
