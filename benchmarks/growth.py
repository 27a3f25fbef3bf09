"""How processor time grows with the rows: every method and every engine, over three decades.

    python benchmarks/growth.py [--most N] [--patience SECONDS]

Tables of six columns (four numbers, two of labels) from a thousandth of N rows to N, a million
unless told otherwise. Time is that of the processor, all threads, the least of three runs below a
second; the table is prepared already, so that methods are compared and not the reading of files.
Engines are measured with ``idp-ls`` from Parquet to a release. The exponent is the slope of a line
through the logarithms of all sizes; the second goes through the last two, where what a run costs
at any size counts less. Of Spark the Java machine and its workers count, warm; it is left out where
it takes longer than our patience.

Writes ``growth.json``, from which the page on very large tables computes, and ``growth.svg``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import sherd
from sherd.engines import choose
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.protect import Settings, protect_to
from sherd.tables.prepare import prepare
from sherd.tables.read import read_blocks

if TYPE_CHECKING:
    from collections.abc import Callable

HERE = Path(__file__).parent
NUMBERS = ("age", "pay", "rent", "hours")
SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            **{n: {"type": "number", "domain": [-50, 150], "grid": "0.01"} for n in NUMBERS},
            "town": {"type": "category", "values": list("abcdefgh")},
            "illness": {"type": "category", "values": list("vwxyz"), "role": "sensitive"},
        }
    }
)
COLUMNS = len(SCHEMA.attributes)
RANKED: dict[str, Any] = {"epsilon": 1.0, "k": 100, "guarantee": "paper"}
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"epsilon": 1.0},
    "idp": {"epsilon": 1.0, "guarantee": "paper"},
    "dp-um": RANKED,
    "idp-ls": RANKED,
    "idp-cbls": RANKED,
    "slice": {"l": 3, "sensitive": ["illness"]},
    "mondrian": {"k": 10},
    "anatomy": {"l": 3, "sensitive": ["illness"]},
    "fragment": {"constraints": {"constraints": [["age", "pay"]]}, "looseness": 12},
    "diffgen": {"epsilon": 1.0, "class_attribute": "illness"},
    "dp-graph": {"epsilon": 1.0, "delta": 1e-9},
}
DECADES = 3
LEAST_RUN = 1.0


def table_of(rows: int) -> pa.Table:
    """Numbers that hang together a little, and labels."""
    rng = np.random.default_rng(0)
    common = rng.normal(50, 10, rows)
    columns: dict[str, Any] = {
        name: np.round(common + rng.normal(0, 10, rows), 2) for name in NUMBERS
    }
    for name in ("town", "illness"):
        labels = np.array(SCHEMA[name].values)
        columns[name] = labels[rng.integers(0, len(labels), rows)]
    return pa.table(columns)


def processor(work: Callable[[], object]) -> float:
    """The processor seconds of some work, the least of three where it is quick."""
    least = math.inf
    for _ in range(3):
        start = time.process_time()
        work()
        least = min(least, time.process_time() - start)
        if least > LEAST_RUN:
            break
    return least


def of_methods(sizes: list[int]) -> dict[str, list[float]]:
    """The seconds of every method at every size."""
    found: dict[str, list[float]] = {name: [] for name in PLANS}
    for rows in (sizes[0], *sizes):  # the first size twice: what is loaded on first use is
        table = prepare(table_of(rows), SCHEMA).table
        for name, parameters in PLANS.items():
            plan = sherd.Plan(method=name, **parameters)
            run = Run(randomness=Randomness.from_system(), threads=1)

            def once(plan: sherd.Plan = plan, run: Run = run, table: pa.Table = table) -> None:
                plan.spec.run(table, SCHEMA, plan, run)

            found[name].append(processor(once))
    return {name: seconds[1:] for name, seconds in found.items()}


def of_engines(sizes: list[int], folder: Path) -> dict[str, list[float]]:
    """The seconds of every engine of this machine, from a file to a release."""
    plan = sherd.Plan(method="idp-ls", **RANKED)
    found: dict[str, list[float]] = {}
    for name in ("memory", "columns", "duckdb"):
        found[name] = []
        for rows in sizes:
            path = folder / f"{rows}.parquet"

            def once(name: str = name, path: Path = path) -> None:
                engine = choose(name, memory=1 << 30).make(folder)
                try:
                    protect_to(
                        folder / "out", lambda: read_blocks(path, SCHEMA), SCHEMA, plan,
                        ledger=None, settings=Settings(threads=1, engine=engine), force=True,
                    )  # fmt: skip
                finally:
                    engine.close()

            found[name].append(processor(once))
    return found


def of_spark(sizes: list[int], folder: Path, patience: float) -> dict[str, list[float]]:
    """The same on Spark with one core, by a process of its own."""
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--spark", str(folder), *map(str, sizes)],
            stdout=subprocess.PIPE,
            text=True,
            check=True,
            timeout=patience,
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        print(f"spark left out: it failed, or was not done within {patience:.0f} s")
        return {}
    return {"spark": list(json.loads(done.stdout.splitlines()[-1]))}


def on_spark(sizes: list[int], folder: Path) -> None:
    """Protect tables of every size in one session; prints seconds of Java and all workers."""
    from sherd.engines.spark_stages import spark_session

    session = spark_session("local[1]")
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sherd.staging", str(folder))
    plan = sherd.Plan(method="idp-ls", **RANKED)
    found = []
    for rows in (sizes[0], *sizes):
        before = _tree_seconds()
        frame = session.read.parquet(str(folder / f"{rows}.parquet"))
        release: Any = sherd.protect(frame, SCHEMA, plan, ledger=None)
        release.remove_parts()
        found.append(_tree_seconds() - before)
    session.stop()
    print(json.dumps(found[1:]))


def _tree_seconds() -> float:
    """The processor seconds of this process and all below it, those that ended included."""
    facts = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            continue  # it ended just now
        facts[int(path.parent.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours, total = [os.getpid()], 0
    while ours:
        one = ours.pop()
        total += facts[one][1]
        ours += [child for child, (parent, _) in facts.items() if parent == one]
    return total / os.sysconf("SC_CLK_TCK")


def slope(sizes: list[int], seconds: list[float]) -> float:
    """The exponent of growth: the slope of a line through the logarithms."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def draw(sizes: list[int], groups: dict[str, dict[str, list[float]]], path: Path) -> None:
    """Seconds over rows, both logarithmic: methods on the left, engines on the right."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    for place, (title, curves) in enumerate(groups.items()):
        axes: Any = figure.add_subplot(1, len(groups), place + 1)
        for number, (name, seconds) in enumerate(curves.items()):
            style = ("-", "--", ":")[number // 5]
            label = f"{name} ({slope(sizes, seconds):.2f})"
            axes.loglog(sizes, seconds, style, marker="o", markersize=3, label=label)
        axes.set_title(f"{title}, with their exponents", fontsize=10)
        axes.set_xlabel("rows")
        axes.set_ylabel("seconds of processor")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None})


def main() -> int:
    """Measure, print, draw and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--patience", type=float, default=1800)
    parser.add_argument("--spark", nargs="+")
    given = parser.parse_args()
    if given.spark is not None:
        on_spark([int(rows) for rows in given.spark[1:]], Path(given.spark[0]))
        return 0
    sizes = [given.most // 10**decade for decade in range(DECADES, -1, -1)]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for rows in sizes:
            pq.write_table(table_of(rows), folder / f"{rows}.parquet")
        methods, engines = of_methods(sizes), of_engines(sizes, folder)
        engines |= of_spark(sizes, folder, given.patience)
    groups = {"methods": methods, "engines": engines}
    kept: dict[str, Any] = {"columns": COLUMNS, "sizes": sizes}
    for title, curves in groups.items():
        heads = "".join(f"{rows:>12,}" for rows in sizes)
        print(f"{title:<12}{heads}  exponent  last decade  ns a cell at the end")
        for name, seconds in curves.items():
            last = slope(sizes[-2:], seconds[-2:])
            cell = seconds[-1] / sizes[-1] / COLUMNS * 1e9
            shown = "".join(f"{one:>12.4f}" for one in seconds)
            print(f"{name:<12}{shown}  {slope(sizes, seconds):>8.2f}  {last:>11.2f}  {cell:>20.0f}")
        kept[title] = {name: [round(one, 5) for one in seconds] for name, seconds in curves.items()}
    draw(sizes, groups, HERE / "growth.svg")
    (HERE / "growth.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
