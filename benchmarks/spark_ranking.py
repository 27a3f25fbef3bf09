"""Masking on Spark, beside Spark's own sort of the same columns, in one run.

    python benchmarks/spark_ranking.py [--rows N]

``idp-ls`` at k = 100 on N × 10 normal columns in Parquet, release committed to Parquet, on two
local cores and on one; Spark's own work is sorting each of the ten columns and writing it nowhere
(the format ``noop``). Wall times, since most of the work is Java's; the session is warm: each has
run once on a small table before. That compiles little of Java's code, so the large table is masked
once more: ``again`` is what a session that has worked before takes. Java has 4 GB: on local cores
driver and executors share it.

One core is measured twice. ``local[1]`` gives Spark one task at a time, but Java's reading, its
compiler and collector and the Python worker beside it take the machine's second core as well.
``confined`` is ``local[1]`` in a process that the system lets run on one core only, which is what a
machine with one core would do. Both ratios are shown for Spark's own sort too, and both of Sherd's
have the limit.

The arithmetic of the first: confined, all work is done on one core, so its seconds are the work W.
One task at a time uses W / local[1] cores, two use W / local[2]. Two cores that are never idle end
after W / 2, so that local[1] / local[2] is at most 2 / (cores that one task uses), however even the
parts are. No part that one core does alone holds ``local[2]`` up: by Spark's event log of such a
run both tasks are busy for 98 % of the time of its stages, and the driver works by itself, without
any, for 4 % of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from larger_than_memory import COLUMNS, write_parquet

LIMITS = {
    "times Spark's own sort, local[2]": ("at most", 2.0),
    "speed-up of two cores, of local[1]": ("at least", 1.5),
    "speed-up of two cores, of confined": ("at least", 1.5),
}


RUNS = {"local[2]": "local[2]", "local[1]": "local[1]", "confined": "local[1]"}
"""What is run, and at which master."""


def one(master: str, folder: Path) -> None:
    """Both kinds of work at one master; prints their seconds."""
    import sherd
    from sherd.engines.spark_stages import spark_session

    session = spark_session(master)
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sherd.staging", str(folder))
    names = [f"c{i}" for i in range(COLUMNS)]
    schema = sherd.Schema.from_data(
        {"attributes": {n: {"type": "number", "domain": ["-50", "150"]} for n in names}}
    )
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=100, guarantee="paper")

    def masked(frame: Any) -> None:
        release: Any = sherd.protect(frame, schema, plan, ledger=None)
        release.remove_parts()

    def ordered(frame: Any) -> None:
        for name in names:
            frame.select(name).sort(name).write.format("noop").mode("overwrite").save()

    found = {}
    runs = [(masked, "masked"), (ordered, "ordered"), (masked, "again")]
    for work, name in runs:
        for size in ("small", "large"):
            start = time.perf_counter()
            work(session.read.parquet(str(folder / f"{size}.parquet")))
            found[name] = time.perf_counter() - start
    session.stop()
    print(json.dumps(found))


def _arithmetic(times: dict[str, dict[str, float]]) -> dict[str, float]:
    """How many cores each run uses, and what that leaves to gain, the first time and again.

    >>> told = _arithmetic({
    ...     run: {"masked": seconds, "again": seconds}
    ...     for run, seconds in (("confined", 36.0), ("local[1]", 24.0), ("local[2]", 20.0))
    ... })
    >>> {name: round(value, 2) for name, value in told.items() if "again" not in name}
    {'cores used by local[1]': 1.5, 'cores used by local[2]': 1.8, 'most that two cores gain': 1.33}
    """
    found = {}
    for work, when in (("masked", ""), ("again", ", again")):
        confined, one, two = (times[run][work] for run in ("confined", "local[1]", "local[2]"))
        found[f"cores used by local[1]{when}"] = confined / one
        found[f"cores used by local[2]{when}"] = confined / two
        found[f"most that two cores gain{when}"] = 2 * one / confined
        if when:
            found[f"gain of two cores{when}, of local[1]"] = one / two
            found[f"gain of two cores{when}, of confined"] = confined / two
    return found


def main() -> int:
    """Print every ratio beside its limit; 1 where one is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--one", nargs=2)
    given = parser.parse_args()
    if given.one is not None:
        one(given.one[0], Path(given.one[1]))
        return 0
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        write_parquet(Path(folder) / "small.parquet", 10_000, COLUMNS)
        write_parquet(Path(folder) / "large.parquet", given.rows, COLUMNS)
        core = str(min(os.sched_getaffinity(0)))
        for run, master in RUNS.items():
            confine = ["taskset", "--cpu-list", core] if run == "confined" else []
            done = subprocess.run(
                [*confine, sys.executable, __file__, "--one", master, folder],
                stdout=subprocess.PIPE,
                env={**os.environ, "PYSPARK_SUBMIT_ARGS": "--driver-memory 4g pyspark-shell"},
                text=True,
                check=True,
            )
            times[run] = json.loads(done.stdout.splitlines()[-1])
    found = {
        "rows": float(given.rows),
        **{f"seconds, {master}": times[master]["masked"] for master in times},
        **{f"seconds of Spark's own sort, {m}": times[m]["ordered"] for m in times},
        **{f"seconds again, {master}": times[master]["again"] for master in times},
        "times Spark's own sort, local[2]": times["local[2]"]["masked"]
        / times["local[2]"]["ordered"],
        **{
            f"speed-up of two cores, {whose}of {run}": times[run][work] / times["local[2]"][work]
            for whose, work in (("", "masked"), ("Spark's own, ", "ordered"))
            for run in ("local[1]", "confined")
        },
        **_arithmetic(times),
    }
    missed = 0
    for name, value in found.items():
        verdict = ""
        if name in LIMITS:
            word, limit = LIMITS[name]
            held = value <= limit if word == "at most" else value >= limit
            missed += not held
            verdict = f"   {word} {limit:g}: {'yes' if held else 'NO'}"
        print(f"{name:<52} {value:>12.4g}{verdict}", flush=True)
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
