"""Mondrian beside anjana: the same k and quasi-identifiers, time, utility and suppression.

anjana generalises whole attributes level by level (global recoding) and may suppress
records; Mondrian generalises class by class and suppresses none. Utility is the normalised
certainty penalty: for every cell the share of the attribute's values that its label covers
beyond one, 0 for exact cells, 1 for fully generalised ones; a suppressed record counts 1.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))

from environments import python_of

from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.plan import Plan
from sherd.tables.schema import Schema
from sherd.verifying.label_meaning import meaning

QUASI = ("age", "workclass", "education", "marital_status", "race", "sex", "native_country")


@dataclass(frozen=True, kw_only=True)
class Result:
    """What one tool took, kept and lost."""

    seconds: float
    penalty: float
    suppressed: float


def age_paths() -> dict[str, list[str]]:
    """Ages in ranges of 5, 10 and 20 years."""
    found = {}
    for age in range(17, 91):
        ranges = [f"{age // w * w}-{age // w * w + w - 1}" for w in (5, 10, 20)]
        found[str(age)] = [str(age), *ranges, "*"]
    return found


def paths_of(schema: Schema, name: str) -> dict[str, list[str]]:
    """For every value its line of groups up to the root, all of one length."""
    if name == "age":
        return age_paths()
    taxonomy = schema[name].taxonomy
    assert taxonomy is not None
    lines = {path[0]: list(path) for path in taxonomy.paths}
    longest = max(map(len, lines.values()))
    # A short branch stays at its value until the others have caught up.
    return {leaf: [leaf] * (longest - len(line)) + line for leaf, line in lines.items()}


def peer(table: pa.Table, schema: Schema, k: int, suppressed: float) -> Result:
    """One run of anjana."""
    python = python_of("anjana")
    here = Path(__file__).with_name("peer_anjana.py")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pyarrow.csv.write_csv(table.select(list(QUASI)), folder / "table.csv")
        lines = {attribute: paths_of(schema, attribute) for attribute in QUASI}
        for attribute, paths in lines.items():
            with (folder / f"{attribute}.csv").open("w", newline="") as file:
                csv.writer(file).writerows(paths.values())
        told = subprocess.run(
            [python, here, folder, str(k), str(suppressed)],
            capture_output=True, text=True, check=True, timeout=1800,
        )  # fmt: skip
        with (folder / "result.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
    total = 0.0
    for attribute, paths in lines.items():
        covered = {
            label: sum(label in other for other in paths.values())
            for path in paths.values()
            for label in path
        }
        total += sum((covered[row[attribute]] - 1) / (len(paths) - 1) for row in rows)
    lost = table.num_rows - len(rows)
    cells = table.num_rows * len(QUASI)
    return Result(
        seconds=float(told.stdout.split()[-1]),
        penalty=(total + lost * len(QUASI)) / cells,
        suppressed=lost / table.num_rows,
    )


def ours(table: pa.Table, schema: Schema, k: int, repeats: int) -> Result:
    """Mondrian on the same table: the median of several runs after one that compiles."""
    kept = table.select(list(QUASI))
    mine = Schema(attributes={name: schema[name] for name in QUASI})
    plan = Plan(method="mondrian", k=k, boxes="tight")
    times = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        outcome = plan.spec.run(kept, mine, plan, Run(randomness=Randomness.from_system()))
        times.append(time.perf_counter() - started)
    books = outcome.facts["labels"]
    total = 0.0
    for name in QUASI:
        kind = schema[name].type.value
        size = 90 - 17 + 1 if name == "age" else len(schema[name].labels or ())
        for label, count in _counts(outcome.tables["data"][name]):
            said = meaning(label, books[name], kind)  # type: ignore[index]
            width = len(said.values) if said.low is None else said.high - said.low + 1
            total += count * (width - 1) / (size - 1)
    return Result(
        seconds=sorted(times[1:])[repeats // 2],
        penalty=total / (table.num_rows * len(QUASI)),
        suppressed=0.0,
    )


def _counts(column: pa.ChunkedArray) -> list[tuple[str, int]]:
    found = column.combine_chunks().value_counts()
    return [(item["values"], item["counts"]) for item in found.to_pylist()]


def compare(table: pa.Table, schema: Schema, *, k: int = 10, repeats: int = 5) -> float | None:
    """Print both beside each other, or why the peer was left out; how many times faster we are."""
    print(f"\nmondrian, k = {k}, {table.num_rows:,} rows, {len(QUASI)} quasi-identifiers")
    mine = ours(table, schema, k, repeats)
    rows = [("mondrian", mine)]
    try:
        rows += [(f"anjana, {s} % may go", peer(table, schema, k, s)) for s in (0, 5)]
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        print(f"  anjana skipped: {error}")
    print(f"  {'':22}{'seconds':>9}{'penalty':>9}{'suppressed':>12}{'times ours':>12}")
    for name, result in rows:
        print(
            f"  {name:22}{result.seconds:9.3f}{result.penalty:9.3f}{result.suppressed:12.2%}"
            f"{result.seconds / mine.seconds:12.1f}"
        )
    return min((r.seconds / mine.seconds for _, r in rows[1:]), default=None)
