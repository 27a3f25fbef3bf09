"""Ours beside the peers, in one run: audits, checks of k-anonymity, microaggregation.

    python benchmarks/peers/compare.py [--rows N] [--attacks N]

Every tool runs in a process of its own, the peers in environments of their own, all on the same
tables; times are processor times, memory is what the work adds to the process. A peer that cannot
be had is named with the reason. sdcMicro is run from its own source where ``SDCMICRO_SOURCES``
names a folder that has it and R has no package of it. The physical limit beside each is a copy (or
a sort) of the table. Tools differ in what they compute: each line says what.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from environments import HERE, PeerMissingError, python_of, rscript
from ranking import extra_memory

import sherd

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = [
    "age", "workclass", "education", "marital_status", "occupation", "relationship", "race", "sex",
    "hours_per_week", "native_country",
]  # fmt: skip
QUASI = ["age", "workclass", "education", "marital_status", "race", "sex", "native_country"]
SENSITIVE = "occupation"


def adult(rows: int, names: list[str]) -> tuple[pa.Table, sherd.Schema]:
    """Some complete records of Adult."""
    table = sherd.datasets.load("adult", complete=True).select(names)
    some = np.random.default_rng(0).permutation(table.num_rows)[:rows]
    whole = sherd.datasets.schema("adult").as_data()
    attributes = {name: whole["attributes"][name] for name in names}
    return table.take(some), sherd.Schema.from_data({**whole, "attributes": attributes})


def seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """The least processor time of several calls."""
    found = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        found.append(time.process_time() - start)
    return min(found)


def told(command: list[Any]) -> dict[str, Any]:
    """What a peer's script prints last, as JSON."""
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, timeout=1800
    )
    if done.returncode:
        raise PeerMissingError(f"it fails: {done.stderr.strip().splitlines()[-1][-160:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def line(
    name: str, used: float, limit: float, ours: float, extra: float | None = None, size: int = 1
) -> None:
    """One tool's figures; memory where it was measured."""
    memory = "-" if extra is None else f"{extra / size:.1f}"
    print(
        f"  {name:<44}{used:>9.2f} s{used / limit:>11.0f}{used / ours:>10.2f}{memory:>12}",
        flush=True,
    )


def head(title: str) -> None:
    """The heading of a comparison."""
    print(f"\n{title}")
    print(f"  {'':<44}{'processor':>11}{'× limit':>11}{'× ours':>10}{'memory ÷ t':>12}")


def prepared(rows: int, folder: Path) -> tuple[pa.Table, sherd.Schema]:
    """Original, release and control as files that every tool reads."""
    table, schema = adult(2 * rows, NAMES)
    control, table = table.slice(rows), table.slice(0, rows)
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=100, guarantee="paper")
    release = sherd.protect(table, schema, plan)
    for name, part in (("original", table), ("released", release.table), ("control", control)):
        pyarrow.csv.write_csv(part, folder / f"{name}.csv")
    kinds = {
        name: {"sdtype": "numerical" if schema[name].type.value == "integer" else "categorical"}
        for name in NAMES
    }
    (folder / "metadata.json").write_text(json.dumps({"columns": kinds}))
    return table, schema


def audits(rows: int, attacks: int, folder: Path) -> None:
    """The whole audit of a release beside Anonymeter's attacks and SDMetrics' reports."""
    table, _ = prepared(rows, folder)
    size = table.nbytes
    limit = seconds(lambda: pa.concat_tables([table, table]).combine_chunks(), 9)
    head(f"audit, Adult, {rows:,} × {len(NAMES)}; limit: a copy of both tables")
    mine = told([sys.executable, __file__, "--audit", folder])
    ours = sum(mine["seconds"].values())
    line("sherd, every measure of utility and risk", ours, limit, ours, mine["peak"] - mine["base"],
         size)  # fmt: skip
    peers = {
        "anonymeter": ([folder, attacks], f"Anonymeter, {attacks} attacks a kind"),
        "sdmetrics": ([folder], "SDMetrics, quality and diagnostic reports"),
    }
    for name, (arguments, title) in peers.items():
        try:
            found = told([python_of(name), HERE / f"run_{name}.py", *arguments])
        except (PeerMissingError, OSError, subprocess.SubprocessError) as error:
            print(f"  {name} left out: {error}")
            continue
        used = sum(found["seconds"].values())
        line(title, used, limit, ours, found["peak"] - found["base"], size)
        for part, spent in found["seconds"].items():
            print(f"    of which {part}: {spent:.2f} s")


def own_audit(folder: Path) -> None:
    """Our audit of the same files, in this process; prints seconds and memory."""
    _, schema = adult(10, NAMES)
    tables = {
        name: sherd.read(folder / f"{name}.csv", schema=schema)
        for name in ("original", "released", "control")
    }
    given = {"schema": schema, "holdout": tables["control"], "alternatives": False}
    some = {name: table.slice(0, 500) for name, table in tables.items()}
    sherd.audit(  # compiles kernels and imports, as the peers have imported before they start
        some["original"], some["released"], **{**given, "holdout": some["control"]}
    )
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    start = time.process_time()
    found = sherd.audit(tables["original"], tables["released"], **given)
    used = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    name = f"{len(found.measures)} measures"
    print(json.dumps({"seconds": {name: used}, "base": base, "peak": peak}))


def growth(rows: list[int]) -> None:
    """How our audit grows with the table."""
    times = []
    for n in rows:
        with tempfile.TemporaryDirectory() as name:
            prepared(n, Path(name))
            times.append(sum(told([sys.executable, __file__, "--audit", name])["seconds"].values()))
    slope = float(np.polyfit(np.log(rows), np.log(times), 1)[0])
    shown = ", ".join(f"{n:,}: {t:.2f} s" for n, t in zip(rows, times, strict=True))
    print(f"  sherd audit as tables grow: {shown}; exponent {slope:.2f}")


def anonymity(rows: int, folder: Path) -> None:
    """Checking a generalised table: our verifier beside pycanon."""
    table, schema = adult(rows, [*QUASI, SENSITIVE])
    attributes = schema.as_data()["attributes"]
    attributes[SENSITIVE] = {**attributes[SENSITIVE], "role": "sensitive"}
    schema = sherd.Schema.from_data({**schema.as_data(), "attributes": attributes})
    release = sherd.protect(table, schema, sherd.Plan(method="mondrian", k=10, boxes="tight"))
    released = release.table
    pyarrow.csv.write_csv(released, folder / "released.csv")
    release.save(folder / "bundle")
    limit = seconds(lambda: pa.concat_tables([released]).combine_chunks().take(np.arange(rows)), 9)
    head(f"checking k-anonymity, Adult by mondrian, k = 10, {rows:,} rows; limit: a copy")
    from sherd.verifying import verify

    ours = seconds(lambda: verify(folder / "bundle").checks)
    extra = extra_memory(lambda: verify(folder / "bundle").checks)
    line("sherd verify: k, labels, hashes of all files", ours, limit, ours, extra,
         released.nbytes)  # fmt: skip
    start = seconds(lambda: released.group_by(QUASI).aggregate([([], "count_all")]))
    line("pyarrow's group_by alone", start, limit, ours)
    try:
        found = told([python_of("pycanon"), HERE / "run_pycanon.py", folder, SENSITIVE])
    except (PeerMissingError, OSError, subprocess.SubprocessError) as error:
        print(f"  pycanon left out: {error}")
        return
    for part, spent in found["seconds"].items():
        value = found[part[0]]
        line(f"pycanon, {part} (finds {value})", spent, limit, ours, found["peak"] - found["base"],
             released.nbytes)  # fmt: skip


NO_ARX = (
    "ARX left out: its jar is not to be had from a package registry (on 2026-11-18 PyPI's arx, "
    "libarx, pyarx and arxpy are other programs and pyARXaaS is a client; npm and Debian have none)"
)


def microaggregation(rows: int, folder: Path) -> None:
    """Individual ranking without noise: ours has noise as well, sdcMicro's onedims has none."""
    from sherd.randomness import Randomness
    from sherd.release.method import Run

    rng = np.random.default_rng(0)
    table = pa.table({f"c{i}": rng.normal(50, 10, rows) for i in range(10)})
    attributes = {n: {"type": "number", "domain": ["-50", "150"]} for n in table.column_names}
    schema = sherd.Schema.from_data({"attributes": attributes})
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=100, guarantee="paper")
    columns = [column.to_numpy() for column in table.columns]
    limit = seconds(lambda: [np.sort(column) for column in columns])
    run = Run(randomness=Randomness.from_system(), threads=1)
    ours = seconds(lambda: plan.spec.run(table, schema, plan, run))
    head(f"individual ranking, k = 100, {rows:,} × 10; limit: np.sort of every column")
    extra = extra_memory(lambda: plan.spec.run(table, schema, plan, run))
    line("sherd idp-ls, noise and shuffling included", ours, limit, ours, extra, table.nbytes)
    print(f"  {NO_ARX}")
    try:
        program, code = rscript()
        pyarrow.csv.write_csv(table, folder / "numbers.csv")
        done = subprocess.run(
            [program, HERE / "onedims.R", folder / "numbers.csv", "100", folder / "made.csv"],
            capture_output=True, text=True, check=True, timeout=1800,
        )  # fmt: skip
    except (PeerMissingError, OSError, subprocess.SubprocessError) as error:
        print(f"  sdcMicro left out: {error}")
        return
    line("sdcMicro, microaggregation(method = 'onedims')", float(done.stdout.split()[-1]), limit,
         ours)  # fmt: skip
    print(f"    which is {code}")
    theirs = pyarrow.csv.read_csv(folder / "made.csv")
    others = _others(table, schema, theirs)
    print(
        f"    its cells are ours without noise, to {NEAR:g}, but for {others:,} of "
        f"{table.num_rows * table.num_columns:,} (ties on our grid at the end of a cluster)"
    )


NEAR = 1e-6
"""Cells that differ by less are the same: ours lie on a grid, and have next to no noise."""


def _others(table: pa.Table, schema: sherd.Schema, theirs: pa.Table) -> int:
    """How many of a peer's cells are not ours, where ours have next to no noise."""
    plan = sherd.Plan(method="idp-ls", epsilon=1e9, k=100, guarantee="paper")
    kept = sherd.Settings(keep_order=True)
    made = sherd.protect(table, schema, plan, ledger=None, settings=kept).table
    pairs = zip(made.columns, theirs.columns, strict=True)
    apart = (np.abs(mine.to_numpy() - peer.to_numpy()) for mine, peer in pairs)
    return sum(int((column > NEAR).sum()) for column in apart)


def main() -> int:
    """Every comparison."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--rows", type=int, default=20_000)
    options.add_argument("--attacks", type=int, default=500)
    options.add_argument("--audit", type=Path, help=argparse.SUPPRESS)
    given = options.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if given.audit is not None:
        own_audit(given.audit)
        return 0
    for compare, arguments in (
        (audits, (given.rows, given.attacks)),
        (anonymity, (given.rows,)),
        (microaggregation, (10 * given.rows,)),
    ):
        with tempfile.TemporaryDirectory() as name:
            compare(*arguments, Path(name))
        if compare is audits:
            growth([given.rows // 4, given.rows // 2, given.rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
