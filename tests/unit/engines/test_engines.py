"""Engines give the same release, hold little, and leave nothing behind."""

from __future__ import annotations

import datetime as dt
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sherd
from sherd.engines import Engine, InMemory, choose
from sherd.engines.external_sort import ExternalSort
from sherd.engines.mapped_columns import MappedColumns
from sherd.errors import PlanError, StorageError, TableError, UsageError
from sherd.methods.ranking import distributed_run
from sherd.methods.ranking.distributed_snapshot import check_units
from sherd.randomness import Randomness
from sherd.release.protect import Settings, protect_to

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": [0, 120]},
            "pay": {"type": "number", "domain": [0, 1000], "grid": "0.5"},
            "born": {"type": "date", "domain": ["1900-01-01", "2020-12-31"]},
            "town": {"type": "category", "values": ["a", "b", "c", "d"]},
            "glad": {"type": "boolean"},
            "weight": {"type": "number", "role": "weight"},
        },
        "missing": "keep",
    }
)
QUIET = 1e9
"""An epsilon at which the noise on a sum is 0 in all but one draw of many billions."""


def tables(rows: int) -> st.SearchStrategy[pa.Table]:
    """Tables with ties, remainders and missing cells in every type."""

    def made(seed: int) -> pa.Table:
        rng = np.random.default_rng(seed)

        def gaps(cells: list[Any]) -> list[Any]:
            return [
                None if gone else cell
                for cell, gone in zip(cells, rng.random(rows) < 0.1, strict=True)
            ]

        first = dt.date(1900, 1, 1)
        born = [first + dt.timedelta(days=int(d)) for d in rng.integers(0, 40_000, rows)]
        return pa.table(
            {
                "age": pa.array(gaps(rng.integers(0, 12, rows).tolist()), pa.int64()),
                "pay": pa.array(gaps((rng.integers(0, 2000, rows) / 2).tolist()), pa.float64()),
                "born": pa.array(gaps(born), pa.date32()),
                "town": pa.array(gaps(rng.choice(list("abcd"), rows).tolist()), pa.string()),
                "glad": pa.array(gaps((rng.random(rows) < 0.3).tolist()), pa.bool_()),
                "weight": pa.array(rng.random(rows).tolist(), pa.float64()),
            }
        )

    return st.integers(0, 2**32 - 1).map(made)


def released(
    table: pa.Table, engine: Engine, tmp: Path, *, block: int | None = None, **plan: Any
) -> pa.Table:
    """The released table, read back from its file."""

    def blocks() -> pa.Table | Iterator[pa.Table]:
        if block is None:
            return table
        return (table.slice(at, block) for at in range(0, table.num_rows, block))

    folder = tmp / f"{engine.name}-{len(list(tmp.iterdir()))}"
    made = Settings(keep_order=True, engine=engine, threads=2)
    chosen = sherd.Plan(epsilon=QUIET, k=5, **plan)
    protect_to(folder, blocks, SCHEMA, chosen, settings=made)
    engine.close()
    return sherd.read(folder / "data.parquet")


@given(table=tables(103), block=st.sampled_from([7, 50, 200]))
@settings(max_examples=5, deadline=None)
def test_results_are_the_same_to_the_bit(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, block: int
) -> None:
    """Without noise every engine gives the same cells and types, in blocks of any size."""
    tmp = tmp_path_factory.mktemp("engines")
    for method in ("idp-cbls", "dp-um"):
        plan: dict[str, Any] = {"method": method, "guarantee": "paper"}
        one = released(table, InMemory(), tmp, **plan)
        assert released(table, MappedColumns(tmp, block), tmp, block=block, **plan).equals(one)
        external = ExternalSort(tmp, block, part_rows=20)
        assert released(table, external, tmp, block=block, **plan).equals(one)
    one = released_dp(table, InMemory(), tmp)
    assert released_dp(table, MappedColumns(tmp, block), tmp).equals(one)
    assert released_dp(table, ExternalSort(tmp, block), tmp).equals(one)


def released_dp(table: pa.Table, engine: Engine, tmp: Path) -> pa.Table:
    """The same by a method that masks every value by itself."""
    folder = tmp / f"dp-{len(list(tmp.iterdir()))}"
    plan = sherd.Plan(method="dp", epsilon=QUIET)
    made = Settings(keep_order=True, engine=engine)
    protect_to(folder, lambda: table, SCHEMA, plan, settings=made)
    engine.close()
    return sherd.read(folder / "data.parquet")


def test_strict_releases_are_sorted_by_the_engine_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One column at a time, where the engine says so, and by its own sorter."""
    sorted_by: list[str] = []

    def noted(kind: type[InMemory]) -> Callable[[InMemory, Any], None]:
        sort = kind.sort

        def sorting(engine: InMemory, words: Any) -> None:
            sorted_by.append(engine.name)
            sort(engine, words)

        return sorting

    for kind in (InMemory, ExternalSort):
        monkeypatch.setattr(kind, "sort", noted(kind))
    rng = np.random.default_rng(0)
    table = pa.table({name: rng.integers(0, 50, 107) for name in ("a", "b")})
    schema = sherd.Schema.from_data(
        {
            "attributes": {n: {"type": "integer", "domain": [0, 50]} for n in table.column_names},
            "missing": "refuse",
        }
    )
    plan = sherd.Plan(method="dp-um", epsilon=QUIET, k=5, guarantee="strict")
    made = {}
    for engine in (InMemory(), MappedColumns(tmp_path, 10), ExternalSort(tmp_path, 10)):
        folder = tmp_path / engine.name
        protect_to(folder, lambda: table, schema, plan, settings=Settings(engine=engine, threads=2))
        engine.close()
        made[engine.name] = sherd.read(folder / "data.parquet")
    assert made["columns"].equals(made["memory"])
    assert made["duckdb"].equals(made["memory"])
    assert sorted_by == ["memory"] * 2 + ["columns"] * 2 + ["duckdb"] * 2


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory, require_or_skip: Any) -> Iterator[Any]:
    """A session on two cores of this machine."""
    if shutil.which("java") is None:
        require_or_skip("there is no Java")
    from sherd.engines.spark_stages import spark_session

    session = spark_session("local[2]")
    session.sparkContext.setLogLevel("OFF")
    session.conf.set("spark.sherd.staging", str(tmp_path_factory.mktemp("staging")))
    session.conf.set("spark.sherd.parts", "3")
    yield session
    session.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_on_spark_a_cell_of_two_lines_stays_one_row(spark: Any, tmp_path: Path) -> None:
    """CSV with quotes and ends of lines inside of cells has as many rows as elsewhere."""
    import csv

    from sherd.engines.spark_stages import spark_frame

    cells = ["plain", 'a "quoted", one', "two\nlines"]
    with (tmp_path / "t.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([["n", "town"], *([n, cells[n % 3]] for n in range(30))])
    rows = spark_frame(spark, str(tmp_path / "t.csv")).collect()
    assert sorted((int(n), town) for n, town in rows) == [(n, cells[n % 3]) for n in range(30)]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@pytest.mark.parametrize("method", ["dp-um", "dp-graph", "diffgen"])
def test_on_spark_rows_that_do_not_fit_their_header_are_refused(
    spark: Any, tmp_path: Path, method: str
) -> None:
    """Whether rows are read or counted, and whoever is counted first: no cell is quoted."""
    from sherd.engines.spark_stages import spark_frame

    (tmp_path / "t.csv").write_text("age,job,who\n1,a,x\n2,b,y\nsecret,a,z,3\n", encoding="utf-8")
    attributes = {
        "age": {"type": "integer", "domain": [0, 9]},
        "job": {"type": "category", "values": ["a", "b"]},
        "who": {"type": "category", "role": "identifier"},
    }
    more: dict[str, Any] = {"dp-um": {"k": 2}, "diffgen": {"class_attribute": "job"}}
    plan = sherd.Plan(method=method, epsilon=1, **more.get(method, {}))
    for unit in ({}, {"unit": "who", "rows_per_unit": 2}):
        schema = sherd.Schema.from_data({"attributes": attributes, **unit})
        with pytest.raises(TableError, match="rows that do not fit its header") as refused:
            sherd.protect(spark_frame(spark, str(tmp_path / "t.csv")), schema, plan, ledger=None)
        assert "secret" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
@given(table=st.integers(11, 130).flatmap(tables), block=st.sampled_from([7, 50, 200]))
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_all_four_engines_give_the_same_cells(
    tmp_path_factory: pytest.TempPathFactory, spark: Any, table: pa.Table, block: int
) -> None:
    """Without noise, to the bit: ties, remainders, missing cells, labels and days; on Spark too."""
    tmp = tmp_path_factory.mktemp("engines")
    for method in ("idp-ls", "dp-um"):
        plan: dict[str, Any] = {"method": method, "guarantee": "paper"}
        one = released(table, InMemory(), tmp, **plan)
        assert released(table, MappedColumns(tmp, block), tmp, block=block, **plan).equals(one)
        external = ExternalSort(tmp, block, part_rows=20)
        assert released(table, external, tmp, block=block, **plan).equals(one)
        chosen = sherd.Plan(epsilon=QUIET, k=5, **plan)
        kept = Settings(keep_order=True)
        frame = spark.createDataFrame(table)
        made: Any = sherd.protect(frame, SCHEMA, chosen, ledger=None, settings=kept)
        assert made.collected.table.equals(one)
        made.remove_parts()


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_on_spark_the_order_of_rows_does_not_tell_equal_values(spark: Any) -> None:
    """Clusters of equal values are whole, and their rows lie all over the release."""
    rows, k = 2050, 100
    schema = sherd.Schema.from_data(
        {"attributes": {n: {"type": "number", "domain": [0, 100]} for n in ("x", "y")}}
    )
    table = pa.table({"x": np.full(rows, 40.0), "y": np.repeat([20.0, 80.0], rows // 2)})
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=k)
    made: Any = sherd.protect(spark.createDataFrame(table), schema, plan, ledger=None)
    data = made.collected.table
    made.remove_parts()
    assert data.num_rows == rows
    for column in data.columns:
        cells = np.asarray(column)
        found = [np.flatnonzero(cells == cell) for cell in np.unique(cells)]
        assert all(len(places) % k in (0, 50) for places in found)
        assert sum(map(len, found)) == rows
        assert len(found) > 10
    reach = [
        np.ptp(np.flatnonzero(np.asarray(data["x"]) == cell)) for cell in set(data["x"].to_pylist())
    ]
    assert min(reach) > 0.7 * rows


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas:FutureWarning")
def test_on_spark_units_are_those_of_the_rows_that_are_released(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source that is replaced after units were counted is refused; odd names are not."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "a.b`c": {"type": "text", "role": "identifier"},
                "x.y": {"type": "number", "domain": [0, 100]},
            },
            "unit": "a.b`c",
            "rows_per_unit": 3,
        }
    )

    def written(units: list[str]) -> None:
        path = tmp_path / "source" / "part.parquet"
        path.parent.mkdir(exist_ok=True)
        values = np.arange(len(units), dtype=float)
        pq.write_table(pa.table({"a.b`c": units, "x.y": values}), tmp_path / "new")
        (tmp_path / "new").replace(path)

    several = [str(at // 3) for at in range(21)]
    written(several)
    source = spark.read.parquet(str(tmp_path / "source"))
    plan = sherd.Plan(method="idp-ls", epsilon=QUIET, k=5, guarantee="paper")
    made: Any = sherd.protect(source, schema, plan, ledger=None)
    assert made.collected.table.num_rows == 21
    made.remove_parts()

    def counted_too_early(*given: Any) -> Any:
        told = check_units(*given)
        written([f"new {unit}" for unit in several])
        return told

    monkeypatch.setattr(distributed_run, "check_units", counted_too_early)
    with pytest.raises(TableError, match="changed while it was read"):
        sherd.protect(source, schema, plan, ledger=None)
    monkeypatch.undo()
    written(["one"] * 21)
    with pytest.raises(TableError, match="more rows than the schema allows"):
        sherd.protect(source, schema, plan, ledger=None)


def test_seeded_releases_are_the_same_in_memory_and_by_columns(tmp_path: Path) -> None:
    """With one seed data and manifest are the same, noise and shuffle included."""
    table = sherd.datasets.load("wine")
    schema = sherd.datasets.schema("wine")
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=50)
    files, told = [], []
    for engine in (InMemory(), MappedColumns(tmp_path)):
        folder = tmp_path / engine.name
        made = Settings(seed=7, engine=engine)
        release = protect_to(folder, lambda: table, schema, plan, settings=made)
        engine.close()
        files.append((folder / "data.parquet").read_bytes())
        timeless = {key: value for key, value in release.manifest.items() if key != "created"}
        told.append((timeless, release.findings))
    assert files[0] == files[1]
    assert told[0] == told[1]


def test_dropped_rows_are_dropped_on_every_engine(tmp_path: Path) -> None:
    """Rows that a policy drops are gone wherever the table lies."""
    from dataclasses import replace

    from sherd.tables.schema import Missing

    schema = replace(SCHEMA, missing=Missing.DROP)
    table = _table(400)
    plan = sherd.Plan(method="idp-ls", epsilon=QUIET, k=5, guarantee="paper")
    results = []
    for engine in (InMemory(), MappedColumns(tmp_path, 64), ExternalSort(tmp_path, 64)):
        made = Settings(keep_order=True, engine=engine)
        folder = tmp_path / engine.name
        protect_to(folder, lambda: table, schema, plan, settings=made)
        engine.close()
        results.append(sherd.read(folder / "data.parquet"))
    assert 0 < results[0].num_rows < 400
    assert results[1].equals(results[0])
    assert results[2].equals(results[0])


def _table(rows: int) -> pa.Table:
    rng = np.random.default_rng(5)
    days = rng.integers(0, 40_000, rows)
    gone = rng.random(rows) < 0.2
    ages = [None if g else int(a) for a, g in zip(rng.integers(0, 90, rows), gone, strict=True)]
    return pa.table(
        {
            "age": pa.array(ages, pa.int64()),
            "pay": rng.integers(0, 2000, rows) / 2,
            "born": pa.array([dt.date(1900, 1, 1) + dt.timedelta(days=int(d)) for d in days]),
            "town": rng.choice(list("abcd"), rows).tolist(),
            "glad": (rng.random(rows) < 0.3).tolist(),
            "weight": rng.random(rows),
        }
    )


@pytest.mark.parametrize("kind", [MappedColumns, ExternalSort])
def test_nothing_is_left_behind(kind: Callable[..., Any], tmp_path: Path) -> None:
    """Raw data lies in files without a name: a listing shows none, and closing removes all."""
    engine = kind(tmp_path)
    taken = engine.take_in(lambda: _table(1000))
    assert taken.num_rows == 1000
    assert oct(engine.folder.stat().st_mode & 0o777) == "0o700"
    assert list(engine.folder.iterdir()) == []
    engine.close()
    assert list(tmp_path.iterdir()) == []
    assert taken.equals(_table(1000))


def test_a_killed_run_leaves_no_raw_data(tmp_path: Path) -> None:
    """A process that dies while columns are mapped leaves an empty folder, no cell."""
    script = (
        "import os, sys, pathlib, pyarrow as pa, numpy as np\n"
        "from sherd.engines.mapped_columns import MappedColumns\n"
        "engine = MappedColumns(pathlib.Path(sys.argv[1]))\n"
        "engine.take_in(lambda: pa.table({'a': np.arange(1000)}))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


KILLED_READING = """
import os, sys, pathlib, pyarrow as pa, numpy as np
from sherd.engines.mapped_columns import MappedColumns
engine = MappedColumns(pathlib.Path(sys.argv[1]))
def blocks():
    yield pa.table({"a": np.arange(1_000_000)})
    os.kill(os.getpid(), 9)
    yield pa.table({"a": np.arange(10)})
engine.take_in(blocks)
"""


def test_a_run_killed_while_it_reads_leaves_no_raw_data(tmp_path: Path) -> None:
    """What is written already had no name when the process died."""
    subprocess.run([sys.executable, "-c", KILLED_READING, str(tmp_path)], check=False)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
    MappedColumns(tmp_path).close()
    assert list(tmp_path.iterdir()) == [], "the next run does not clear up after a dead one"


KILLED_SORTING = """
import os, sys, pathlib, threading, time, numpy as np
from sherd.engines.external_sort import ExternalSort
engine = ExternalSort(pathlib.Path(sys.argv[1]), memory=1)
def watch():
    while not sum(path.stat().st_size for path in (engine.folder / "spill").glob("*")):
        time.sleep(0.002)
    os.kill(os.getpid(), 9)
threading.Thread(target=watch, daemon=True).start()
while True:
    words = engine.array(8_000_000, np.uint64)
    words[:] = np.arange(len(words), dtype=np.uint64)[::-1]
    engine.sort(words)
"""


def test_a_run_killed_while_it_sorts_leaves_no_spilled_words(tmp_path: Path) -> None:
    """DuckDB's files have names: a process that outlives the run removes them."""
    done = subprocess.run([sys.executable, "-c", KILLED_SORTING, str(tmp_path)], check=False)
    assert done.returncode == -9
    until = time.monotonic() + 20
    while any(path.is_file() for path in tmp_path.rglob("*")) and time.monotonic() < until:
        time.sleep(0.05)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_runs_at_once_leave_each_other_alone(tmp_path: Path) -> None:
    """A run clears up after dead runs only, and follows no link that lies where a folder would."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").write_text("mine", encoding="utf-8")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / ".sherd-engine-link").symlink_to(elsewhere)
    first = MappedColumns(scratch)
    taken = first.take_in(lambda: _table(100))
    second = ExternalSort(scratch, memory=1)
    words = second.array(1000, np.uint64)
    words[:] = np.arange(1000, dtype=np.uint64)[::-1]
    second.sort(words)
    third = MappedColumns(scratch)
    assert all(engine.folder.is_dir() for engine in (first, second, third))
    for engine in (first, second, third):
        engine.close()
    assert (words == np.arange(1000)).all()
    assert taken.equals(_table(100))
    assert (elsewhere / "kept").read_text(encoding="utf-8") == "mine"
    assert [path.name for path in scratch.iterdir()] == [".sherd-engine-link"]


def test_the_external_shuffle_is_uniform(tmp_path: Path) -> None:
    """Every order of four rows is equally likely, also over parts of two.

    24 orders, 1,200 draws: chi-square with 23 degrees of freedom stays below 70.0 in all but
    one of a million runs; a shuffle that never mixes parts fails it by far.
    """
    engine = ExternalSort(tmp_path, part_rows=2, block_rows=3)
    source = Randomness.from_system()
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(1200):
        order = tuple(int(place) for place in engine.places(source, 4, 1))
        counts[order] = counts.get(order, 0) + 1
    engine.close()
    assert len(counts) == 24
    assert all(sorted(order) == [0, 1, 2, 3] for order in counts)
    assert sum((count - 50) ** 2 / 50 for count in counts.values()) < 70.0


def test_the_external_sort_keeps_to_its_memory(tmp_path: Path) -> None:
    """Words are sorted by DuckDB within 32 MiB exactly as numpy sorts them."""
    words = np.random.default_rng(0).integers(0, 2**63, 300_000, dtype=np.uint64)
    engine = ExternalSort(tmp_path, memory=1)
    here = engine.array(len(words), np.uint64)
    here[:] = words
    engine.sort(here)
    engine.close()
    words.sort()
    assert np.array_equal(here, words)


def test_auto_takes_the_lightest_that_fits() -> None:
    """What was chosen and why is said in words; a name that is none is refused."""
    small = choose("auto", memory=1 << 30, rows=1000, column_bytes=[8])
    assert small.name == "memory"
    assert "1 GB" in small.why
    assert choose("auto", memory=1 << 30, rows=30_000_000, column_bytes=[8] * 10).name == "columns"
    assert choose("auto", memory=1 << 30, rows=90_000_000, column_bytes=[8]).name == "duckdb"
    assert choose("duckdb", memory=1 << 30).why == "as asked for"
    assert choose("auto", rows=None).name == "memory"
    with pytest.raises(UsageError, match="engine is unknown") as refused:
        choose("hadoop")
    assert "spark" in str(refused.value)


def test_an_engine_that_the_table_does_not_fit_is_told() -> None:
    """Whoever allows too little memory is told, and which methods have no choice."""
    large: dict[str, Any] = {"rows": 1 << 20, "column_bytes": [8] * 4, "memory": 20 << 20}
    assert choose("memory", **large).why == (
        "as asked for, although that needs about 80 MB of 20 MB"
    )
    assert choose("columns", **large).why.endswith("needs about 28 MB of 20 MB")
    assert choose("duckdb", **large).why.endswith("needs about 64 MB of 20 MB")
    assert choose("auto", **large).why.endswith("although that takes 64 MB at least")
    only = choose("auto", only_memory="the method 'slice' runs in memory only", **large)
    assert only.name == "memory"
    assert only.why.startswith("the method 'slice' runs in memory only, although that needs")
    counted = choose("auto", only_memory="no", counts_in="DuckDB", **large)
    assert counted.name == "database"


def test_the_folders_above_the_output_are_made_on_every_engine(tmp_path: Path) -> None:
    """A release into a new folder does not depend on the engine that makes it."""
    engine = MappedColumns(tmp_path / "new" / "newer")
    assert engine.folder.parent == tmp_path / "new" / "newer"
    engine.close()
    assert list(engine.folder.parent.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="folder cannot be made"):
        MappedColumns(tmp_path / "file" / "new")


def test_methods_that_need_the_whole_table_say_so(tmp_path: Path) -> None:
    """Slicing runs in memory; asking for another engine is refused before anything is read."""
    plan = sherd.Plan(method="mondrian", k=5)
    made = Settings(engine=MappedColumns(tmp_path))
    with pytest.raises(PlanError, match="does not run on the engine"):
        protect_to(tmp_path / "out", lambda: pytest.fail("read"), SCHEMA, plan, settings=made)


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """Where the files cannot be written the error says where and what to do."""
    engine = MappedColumns(tmp_path)
    engine.folder.rmdir()
    with pytest.raises(StorageError, match="cannot be written"):
        engine.take_in(lambda: _table(10))


FULL = """
import resource, sys, pathlib, pyarrow as pa, numpy as np
from sherd.engines.mapped_columns import MappedColumns
from sherd.errors import StorageError
engine = MappedColumns(pathlib.Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
for work in (
    lambda: engine.take_in(lambda: pa.table({"a": np.arange(1_000_000)})),
    lambda: engine.keep(pa.array(np.arange(1_000_000))),
    lambda: engine.mapped_array(1_000_000, np.uint64),
):
    try:
        work()
    except StorageError as error:
        print(error)
engine.close()
"""


def test_a_disk_that_fills_up_ends_in_an_error_that_says_where(tmp_path: Path) -> None:
    """Reading in, keeping a column and taking room: each is refused, and nothing is left."""
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert done.stdout.count("cannot be written") == 3
    assert done.stdout.count(str(tmp_path)) == 3
    assert list(tmp_path.iterdir()) == []


def test_a_sort_without_room_is_refused_in_our_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DuckDB's error becomes one that says where to make room; its files are removed."""
    engine = ExternalSort(tmp_path, memory=1)
    (engine.folder / "file").touch()
    tight = {**engine._settings(), "temp_directory": str(engine.folder / "file")}
    monkeypatch.setattr(engine, "_settings", lambda: tight)
    words = engine.array(8_000_000, np.uint64)
    words[:] = np.random.default_rng(0).integers(0, 2**63, len(words), dtype=np.uint64)
    with pytest.raises(StorageError, match="cannot sort a column"):
        engine.sort(words)
    engine.close()
    assert list(tmp_path.iterdir()) == []
