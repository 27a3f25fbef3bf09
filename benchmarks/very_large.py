"""Write the page on tables of 10⁸ and 10⁹ rows, computed from what was measured.

    python benchmarks/very_large.py

Takes ``growth.json`` (written by ``growth.py``) and what ``RESULTS.md`` records of
``larger_than_memory.py`` and ``spark_ranking.py``, and writes
``docs/how-to/very-large-tables.md``. A test holds the page against the measurements.
"""

from __future__ import annotations

import json
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "how-to" / "very-large-tables.md"
ROWS = (10**8, 10**9)
COLUMNS, K = 10, 100
WORD = 8
PRICE = 0.05
"""Of a core for an hour: an assumption, about what clouds ask for without a contract."""

NODE_CORES, NODE_MEMORY = 8, 32e9
"""Nodes of a cluster as the page counts them."""

SORTING = 4
"""Times a part of the table that an executor's core must have room for."""

SPARK = "Masking on Spark"
"""How the part of the results begins that Spark's own is in."""

EFFICIENCY = 0.75
"""What each of two cores must do of one core's work, by the project's limit."""

DRIVER = 24
"""Bytes of a cluster and attribute at the driver: its size, its sum and its cell."""


TEMPLATE = """\
# Plan for 10⁸ and 10⁹ rows

<!-- written by benchmarks/very_large.py from what was measured; do not edit -->

What a table of {columns} numbers takes by `idp-ls` with k = {k}, computed from what smaller runs
took on one machine with two cores (`benchmarks/RESULTS.md`). The sums are written out: put your own
coefficients, nodes and prices into them. Measure at a tenth of your rows first.

## Coefficients

{used}

Of Spark it is what further cells take beyond 100,000 rows, and the power is 1; starting takes
{started:.0f} s besides. Otherwise the power is that of the last decade in
`benchmarks/growth.json`; one that is less than 1, as where a run costs something at any size, is
taken as 1. A core costs {price} an hour here, in whatever currency: an assumption. The picture is
`benchmarks/growth.svg`.

## One machine

{machine}

Both work on one column at a time, by one thread, so that processor time is about what you wait for,
as long as the disk keeps up; DuckDB itself sorts on all cores. Room on disk is for the mapped
table, the masked columns and the release. From 2²⁸ rows on a grid must leave room for the row's
number: [](large-tables.md).

## A cluster

{cluster}

Nodes are counted so that the work ends within an hour, two at least. {measured}
More than two cores were not measured, and neither was the network between nodes. A part, with its
sorting, takes {sorting} times its size in the memory of a core; set their number by
`spark.sherd.parts`. The driver's bytes are counted, not measured. Staging holds the rows, the
words, their sums and the release.

## Verifying it

{verified}
"""


@dataclass(frozen=True, kw_only=True)
class Coefficients:
    """Seconds of processor a cell at the rows where it was measured, and how they grow."""

    cell: float
    rows: int
    exponent: float
    row_bytes: float = 0.0

    def seconds(self, rows: int) -> float:
        """Processor seconds of a table: a cell's, times the cells, times what growth adds."""
        return self.cell * rows * COLUMNS * (rows / self.rows) ** (self.exponent - 1)


def last_exponent(sizes: list[int], seconds: list[float]) -> float:
    """The exponent of growth over the last decade, or 1 where it is less: nothing is hoped for."""
    slope = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
    return max(1.0, slope)


def coefficients(growth: dict[str, Any], large: dict[str, Any]) -> dict[str, Coefficients]:
    """What the page computes with, engine by engine."""
    sizes, engines = growth["sizes"], growth["engines"]
    known = {}
    for name in ("columns", "duckdb"):
        one = large[name]
        known[name] = Coefficients(
            cell=one["seconds"] / one["rows"] / one["columns"],
            rows=one["rows"],
            exponent=last_exponent(sizes, engines[name]),
            row_bytes=one["peak"] / one["rows"],
        )
    # Of Spark the processor time of Java and all workers that further cells take: starting costs
    # as much as a million rows.
    took = engines["spark"][-1] - engines["spark"][-2]
    known["spark"] = Coefficients(
        cell=took / (sizes[-1] - sizes[-2]) / growth["columns"], rows=sizes[-1], exponent=1.0
    )
    return known


def size(number: float) -> str:
    """Bytes in words.

    >>> size(28e9), size(1.6e12)
    ('28 GB', '1.6 TB')
    """
    for unit, name in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB")):
        if number >= unit:
            return (
                f"{number / unit:.2g} {name}"
                if number < 10 * unit
                else f"{number / unit:.0f} {name}"
            )
    return f"{number:.0f} bytes"


def digits(number: float) -> str:
    """Three digits at least, so that the sums on the page come out.

    >>> digits(69.84), digits(1120.4)
    ('69.8', '1,120')
    """
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"


def span(seconds: float) -> str:
    """Seconds in words.

    >>> span(34), span(150), span(5400)
    ('34 seconds', '2.5 minutes', '1.5 hours')
    """
    if seconds < 120:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.1f} minutes" if seconds < 3600 else f"{seconds / 3600:.1f} hours"


def power(number: float) -> str:
    """A power of ten as the page writes it.

    >>> power(10**9)
    '10⁹'
    """
    return "10" + str(round(math.log10(number))).translate(
        str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    )


def on_one_machine(known: dict[str, Coefficients]) -> list[str]:
    """The table of what one machine needs, with the sums written out."""
    lines = [
        "| rows | engine | processor | memory, one thread | room on disk | cost |",
        "|---|---|---|---|---|---|",
    ]
    for rows in ROWS:
        table = rows * COLUMNS * WORD
        for name in ("columns", "duckdb"):
            one = known[name]
            seconds = one.seconds(rows)
            grown = (rows / one.rows) ** (one.exponent - 1)
            sums = (
                f"{digits(one.cell * 1e9)} ns × {power(rows * COLUMNS)} cells × {grown:.2f} "
                f"= {seconds:,.0f} s" + (f" = {span(seconds)}" if seconds >= 120 else "")
            )
            held = (
                f"{one.row_bytes:.1f} bytes × {power(rows)} = {size(one.row_bytes * rows)}"
                if name == "columns"
                else "what `--memory` says; 1 GB was enough for 10⁸ rows"
            )
            disk = f"3 × {size(table)} = {size(3 * table)}"
            cost = f"{seconds / 3600:.3f} h × {PRICE:.2f} = {seconds / 3600 * PRICE:.3f}"
            lines.append(f"| {power(rows)} | `{name}` | {sums} | {held} | {disk} | {cost} |")
    return lines


def nodes_for(seconds: float, efficiency: float) -> int:
    """Nodes that finish within an hour, two at least."""
    return max(2, math.ceil(seconds / (3600 * NODE_CORES * efficiency)))


def on_a_cluster(known: dict[str, Coefficients], efficiency: float) -> list[str]:
    """The table of what a cluster needs."""
    lines = [
        "| rows | work | nodes | time | parts | driver | room for staging | cost |",
        "|---|---|---|---|---|---|---|---|",
    ]
    one = known["spark"]
    for rows in ROWS:
        seconds, table = one.seconds(rows), rows * COLUMNS * WORD
        grown = (rows / one.rows) ** (one.exponent - 1)
        nodes = nodes_for(seconds, efficiency)
        cores = nodes * NODE_CORES
        took = seconds / cores / efficiency
        parts = max(2 * cores, math.ceil(SORTING * table / (NODE_MEMORY / NODE_CORES)))
        driver = rows / K * COLUMNS * DRIVER
        cells = f"{power(rows * COLUMNS)}"
        lines.append(
            f"| {power(rows)} "
            f"| {digits(one.cell * 1e6)} µs × {cells} × {grown:.2f} = {seconds:,.0f} s "
            f"| {nodes} of {NODE_CORES} cores and {size(NODE_MEMORY)} "
            f"| {seconds:,.0f} s ÷ ({cores} × {efficiency:.2f}) = {span(took)} "
            f"| {parts} of {size(table / parts)} "
            f"| {power(rows / K)} × {COLUMNS} × {DRIVER} bytes = {size(driver)} "
            f"| 4 × {size(table)} = {size(4 * table)} "
            f"| {cores} × {took / 3600:.3f} h × {PRICE:.2f} = {cores * took / 3600 * PRICE:.3f} |"
        )
    return lines


def page(growth: dict[str, Any], large: dict[str, Any]) -> str:
    """The whole page."""
    known = coefficients(growth, large)
    spark = large.get("spark")
    efficiency = spark["speed-up of two cores"] / 2 if spark else EFFICIENCY
    measured = (
        f"Two tasks at once (`local[2]`) did {2 * efficiency:.2f} times the work of one task that "
        f"the system confines to one core, so each core counts for {efficiency:.2f}.\nBeside "
        "`local[1]`, where Java and Python take the second core for parts of the one task, "
        f"it was {spark['speed-up of two tasks']:.2f} times.\n{utilisation(spark)}"
        if spark
        else f"A core counts for {efficiency:.2f} of one that works alone: the project's limit."
    )
    used = [
        f"- `{name}`: {digits(one.cell * 1e9)} ns of processor a cell, measured at "
        f"{one.rows:,} rows; growth with the power {one.exponent:.2f}"
        + (f"; {one.row_bytes:.1f} bytes of memory a row" if one.row_bytes else "")
        for name, one in known.items()
    ]
    return TEMPLATE.format(
        started=growth["engines"]["spark"][0], columns=COLUMNS, k=K,
        used="\n".join(used), price=f"{PRICE:.2f}",
        machine="\n".join(on_one_machine(known)),
        cluster="\n".join(on_a_cluster(known, efficiency)),
        measured=measured, sorting=SORTING, verified=verification(large),
    )  # fmt: skip


def utilisation(spark: dict[str, float]) -> str:
    """What two cores can gain over one task, as a line of arithmetic.

    >>> utilisation({"speed-up of two cores": 1.6, "speed-up of two tasks": 1.2})
    'One task thus uses 1.60 / 1.20 = 1.33 cores; two never idle gain at most 2 / 1.33 = 1.50.'
    """
    confined, task = spark["speed-up of two cores"], spark["speed-up of two tasks"]
    used = confined / task
    return (
        f"One task thus uses {confined:.2f} / {task:.2f} = {used:.2f} cores; "
        f"two never idle gain at most 2 / {used:.2f} = {2 / used:.2f}."
    )


def verification(large: dict[str, Any]) -> str:
    """What verifying such releases takes, where it was measured."""
    one = large.get("verify, columns")
    if one is None:
        return "Memory does not grow with the rows: [](verify.md)."
    cell = one["seconds"] / one["rows"] / one["columns"]
    lines = ["| rows | processor | memory |", "|---|---|---|"]
    for rows in ROWS:
        sums = f"{digits(cell * 1e9)} ns × {power(rows * COLUMNS)} cells"
        took = span(cell * rows * COLUMNS)
        lines.append(f"| {power(rows)} | {sums} = {took} | {size(one['peak'])} |")
    told = f"Measured at {one['rows']:,} rows of {one['columns']} columns; memory does not grow"
    return "\n".join([*lines, "", f"{told} with the rows."])


def recorded(text: str) -> dict[str, Any]:
    """The large runs in a page of results.

    >>> recorded("columns: 50,000 x 10: 9.5 s of processor, 1.5 x the time, 1.2 GB held")
    {'columns': {'rows': 50000, 'columns': 10, 'seconds': 9.5, 'peak': 1200000000.0}}
    """
    large: dict[str, Any] = {}
    engine = ""
    for line in text.splitlines():
        run = re.match(r"(\w+): ([\d,]+) x (\d+): ([\d.]+) s .*, ([\d.]+) GB held", line)
        again = re.match(r"  verified in ([\d.]+) s of processor, ([\d.]+) GB held", line)
        speed = re.match(r"speed-up of two cores, of (.+?) +([\d.]+) +at least", line)
        if run:
            engine = run[1]
            rows, columns = int(run[2].replace(",", "")), int(run[3])
            facts = {"rows": rows, "columns": columns}
            large[engine] = {**facts, "seconds": float(run[4]), "peak": float(run[5]) * 1e9}
        elif again:
            facts = {key: large[engine][key] for key in ("rows", "columns")}
            told = {"seconds": float(again[1]), "peak": float(again[2]) * 1e9}
            large[f"verify, {engine}"] = {**facts, **told}
        elif speed and SPARK in text[: text.index(line)].rpartition("\n## ")[2]:
            name = {"confined": "speed-up of two cores", "local[1]": "speed-up of two tasks"}
            large.setdefault("spark", {})[name[speed[1]]] = float(speed[2])
    return large


def kept() -> tuple[dict[str, Any], dict[str, Any]]:
    """The growth of every engine, and the large runs."""
    growth = json.loads((HERE / "growth.json").read_text(encoding="utf-8"))
    return growth, recorded((HERE / "RESULTS.md").read_text(encoding="utf-8"))


def main() -> int:
    """Write the page."""
    PAGE.write_text(page(*kept()), encoding="utf-8")
    print(f"written to {PAGE}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
