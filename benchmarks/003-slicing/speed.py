"""How fast slicing is: beside plain Python, as tables grow, and beside a peer.

Everything in one run on one machine; ratios carry over, seconds do not. Ends with 1 where a
limit is missed.

    python benchmarks/003-slicing/speed.py [--largest ROWS] [--no-peer]
"""

from __future__ import annotations

import argparse
import math
import random
import resource
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import peer
import plain
import pyarrow as pa

from sherd import datasets
from sherd.methods.slicing.attribute_codes import combined, encode
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.tables.schema import Schema

FAST = {"any": 0.1, "records": 0.4}
"""Seconds of processor time that slicing Adult at l = 3, c = 3 may take, by scope."""

SLOPE = 1.2
"""The exponent of growth that may not be reached."""

FASTER = 5.0
"""How many times faster than the peer Mondrian must be."""

SIZES = (1, 3, 10, 30, 100)
"""How often Adult is repeated."""


def adult() -> tuple[pa.Table, Schema]:
    """Adult's complete rows without the sampling weight."""
    schema = datasets.schema("adult")
    kept = {name: a for name, a in schema.attributes.items() if name != "fnlwgt"}
    table = datasets.load("adult", complete=True).drop_columns(["fnlwgt"])
    return table, replace(schema, attributes=kept)


def timed(work: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """The best wall and processor time of several calls, and the last result.

    Both, since other programs on the machine lengthen the first only.
    """
    wall, processor = math.inf, math.inf
    for _ in range(repeats):
        started, used = time.perf_counter(), time.process_time()
        result = work()
        wall = min(wall, time.perf_counter() - started)
        processor = min(processor, time.process_time() - used)
    return wall, processor, result


def runner(table: pa.Table, schema: Schema, **parameters: Any) -> Callable[[], Any]:
    """A call that slices the table."""
    plan = Plan(method="slice", sensitive=["occupation"], **parameters)
    plan.check(schema)
    return lambda: plan.spec.run(table, schema, plan, Run(randomness=Randomness.from_system()))


def against_plain(table: pa.Table, schema: Schema) -> list[str]:
    """Whole runs of ours beside the partitioning alone in plain Python; the limits missed."""
    missed = []
    print(f"slice, l = 3, c = 3, {table.num_rows:,} rows: seconds")
    names = [name for name in table.column_names if name != "occupation"]
    random.Random(1).shuffle(names)  # noqa: S311 - the order in which equal spans are split
    coded = {name: encode(table[name], schema[name]) for name in table.column_names}
    codes = [coded[name].codes.tolist() for name in names]
    sizes = [coded[name].size for name in names]
    sensitive = coded["occupation"].codes.tolist()
    print(f"  {'':20}{'ours: wall':>11}{'CPU':>7}{'buckets':>9}{'plain: wall':>13}{'CPU':>7}"
          f"{'buckets':>9}{'CPU ratio':>11}")  # fmt: skip
    for scope, title in (("any", "any tuple"), ("records", "records' own tuples")):
        sliced = runner(table, schema, l=3, columns=3, scope=scope)
        sliced()  # imports, and compiles where the cache is empty
        wall, processor, outcome = timed(sliced, 9)
        if scope == "any":
            plain_wall, plain_cpu, found = timed(
                lambda: plain.partition(codes, sizes, sensitive, 3), 3
            )
        else:
            columns = [
                combined([coded[n].codes for n in g], [coded[n].size for n in g])[0].tolist()
                for g in outcome.facts["columns"][:-1]
            ]
            plain_wall, plain_cpu, found = timed(
                lambda c=columns: plain.partition_records(codes, sizes, c, sensitive, 3), 2
            )
        rate = next(f.value for f in outcome.findings if f.name == "tuple-partition rate")
        print(
            f"  {title:20}{wall:11.3f}{processor:7.3f}{round(rate * table.num_rows):9,}"
            f"{plain_wall:13.2f}{plain_cpu:7.2f}{len(found):9,}{plain_cpu / processor:11.1f}"
        )
        if processor > FAST[scope]:
            missed.append(f"{title}: {processor:.3f} s, more than {FAST[scope]}")
    return missed


def limits(table: pa.Table, schema: Schema) -> tuple[float, float]:
    """What no slicing can do without: seconds to copy the table in another order, and to sort it.

    A release has every cell once, in an order of its own; buckets need the records in order of
    some attribute at least once, so every attribute's codes are sorted here.
    """
    order = pa.array(np.random.default_rng(0).permutation(table.num_rows))
    codes = [encode(table[name], schema[name]).codes for name in table.column_names]
    _, copied, _ = timed(lambda: table.take(order), 3)
    _, ordered, _ = timed(lambda: [np.sort(column) for column in codes], 3)
    return copied, ordered


def growth(table: pa.Table, schema: Schema, largest: int) -> list[str]:
    """Time and memory as the table is repeated; the limit missed, if it is."""
    print("\nslice, l = 3, c = 3, Adult repeated: processor time beside copying the table in "
          "another order, and sorting every column")  # fmt: skip
    seen = []
    for times in SIZES:
        if table.num_rows * times > largest:
            break
        repeated = pa.concat_tables([table] * times).combine_chunks()
        wall, seconds, _ = timed(runner(repeated, schema, l=3, columns=3), 5 if times <= 3 else 1)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        copied, ordered = limits(repeated, schema)
        n = repeated.num_rows
        seen.append((n, seconds))
        print(
            f"  {n:>10,} rows {wall:7.2f} s wall {seconds:7.2f} s CPU "
            f"{seconds / n * 1e6:6.2f} µs a row  peak {peak:5.2f} GiB  "
            f"{seconds / copied:5.1f} × copying {seconds / ordered:5.1f} × sorting"
        )
    if len(seen) < 3:
        print("  no exponent: fewer than three sizes")
        return []
    x, y = np.log(np.array(seen)).T
    slope, start = np.polyfit(x, y, 1)
    off = np.abs(np.expm1(slope * x + start - y)).max()
    print(f"  exponent of growth, fitted to {len(seen)} sizes: {slope:.2f} (no size off by more "
          f"than {off:.0%})")  # fmt: skip
    return [f"growth: exponent {slope:.2f}, not below {SLOPE}"] if slope >= SLOPE else []


def main() -> int:
    """All comparisons, one after the other; 1 where a limit is missed."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--largest", type=int, default=5_000_000)
    options.add_argument("--no-peer", action="store_true")
    given = options.parse_args()
    table, schema = adult()
    missed = against_plain(table, schema)
    missed += growth(table, schema, given.largest)
    if not given.no_peer:
        ratio = peer.compare(table, schema)
        if ratio is not None and ratio < FASTER:
            missed.append(f"mondrian: {ratio:.1f} times faster than the peer, not {FASTER:.0f}")
    for limit in missed:
        print(f"MISSED {limit}")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
