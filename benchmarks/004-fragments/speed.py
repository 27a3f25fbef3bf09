"""How fast loose associations are made, in ratios measured in one run.

    python benchmarks/004-fragments/speed.py [--million] [--plain]

Prints the time for synthetic PATIENTS at k = 16 and for the IPUMS-like table at k = 12, the
growth exponent, the ratio to a sort of every column (no grouping by order can be faster) and to the
plain Python version of Figures 8 and 9, and the memory of both beside the table. Times are
processor times, so that a busy machine does not show.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from ipums import case
from patients import CONSTRAINTS, FRAGMENTS, SCHEMA, SIMILAR, patients
from plain import Plain
from ranking import extra_memory

from sherd.methods.fragmenting.association import associate, problem_shape
from sherd.methods.fragmenting.tuple_codes import positions
from sherd.randomness import Randomness

if TYPE_CHECKING:
    import pyarrow as pa


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


def sorted_columns(table: pa.Table) -> float:
    """The least time of three sorts of every column's codes."""
    columns = [positions(table, SCHEMA[name]) for name in table.column_names]
    found = []
    for _ in range(3):
        start = time.process_time()
        for column in columns:
            np.argsort(column, kind="stable")
        found.append(time.process_time() - start)
    return min(found)


def check(what: str, value: float, limit: float, text: str, *, least: bool = False) -> bool:
    """Print a number with its limit; whether the limit is kept."""
    kept = value >= limit if least else value <= limit
    sign = "at least" if least else "at most"
    end = f", {sign} {limit:g}" if math.isfinite(limit) else ""
    print(f"{'ok  ' if kept else 'MISS'}  {what}: {text}{end}", flush=True)
    return kept


def main() -> int:
    """Print every number; 1 where a limit is missed."""
    options = argparse.ArgumentParser()
    options.add_argument("--million", action="store_true")
    options.add_argument("--plain", action="store_true")
    given = options.parse_args()
    arguments = (SCHEMA, CONSTRAINTS, FRAGMENTS, (4, 4), SIMILAR)
    timed(patients(3000), *arguments)  # from the compile cache, or compiled now
    kept, times = [], {}
    limits = {25_000: math.inf, 50_000: math.inf, 100_000: 0.12} | (
        {1_000_000: 1.7} if given.million else {}
    )
    for rows, limit in limits.items():
        table = patients(rows)
        found = [timed(table, *arguments, seed=seed) for seed in range(3)]
        times[rows] = min(seconds for seconds, _ in found)
        text = f"{times[rows]:.3f} s, {found[0][1].suppressed / rows:.4%} left out"
        kept.append(check(f"PATIENTS, {rows:,} tuples, k = 16", times[rows], limit, text))
    low, high = min(times), max(times)
    exponent = float(np.polyfit(np.log(list(times)), np.log(list(times.values())), 1)[0])
    kept.append(check(f"growth from {low:,} to {high:,}", exponent, 1.15, f"{exponent:.3f}"))
    rows = 100_000
    table = patients(rows)
    tracemalloc.start()
    timed(table, *arguments)
    peak = tracemalloc.get_traced_memory()[1] / table.nbytes
    tracemalloc.stop()
    kept.append(check("memory beside the table, in tables", peak, 4, f"{peak:.2f}"))
    print(f"      times a sort of every column: {times[rows] / sorted_columns(table):.1f}")
    if given.plain:
        plain: list[tuple[float, int]] = []
        extra = extra_memory(lambda: plain.append(plain_seconds(rows))) / table.nbytes
        print(f"      memory of plain Python beside the table, in tables: {extra:.1f}")
        seconds, left_out = plain[0]
        text = f"{seconds:.1f} s, {left_out / rows:.4%} left out"
        kept.append(check("plain Python", seconds, 60, text))
        ratio = seconds / times[rows]
        kept.append(check("times as fast as plain Python", ratio, 30, f"{ratio:.0f}", least=True))
    for name in ("two", "three") if os.environ.get("SHERD_DATA") else ():
        ipums = case(name)
        found = [timed(*ipums.arguments, seed=seed) for seed in range(3)]
        seconds = min(seconds for seconds, _ in found)
        text = f"{seconds:.3f} s, {found[0][1].suppressed / ipums.table.num_rows:.4%} left out"
        kept.append(check(f"IPUMS-like, {name} fragments, k = 12", seconds, 2, text))
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())
