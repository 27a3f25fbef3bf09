"""On a cluster: the same release as in memory, whatever dies on the way."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

import numpy as np
import pyarrow as pa
import pytest
import spark_driver
from spark_driver import SCHEMA, WEIGHT, table_of

import sherd
from sherd.engines import spark_stages
from sherd.engines.spark_stages import SparkStages, is_spark_frame
from sherd.errors import InternalError, MissingPartError, PlanError, TableError, UsageError
from sherd.methods.ranking.distributed_blocks import (
    ORDER,
    Assemble,
    PackWords,
    ReduceSpans,
    RowBlock,
    SortSpans,
    Span,
    groups,
    packed,
    record,
    records,
    unpacked,
)
from sherd.methods.ranking.distributed_run import Rows, check_plan, gathered, spans_of
from sherd.methods.ranking.distributed_snapshot import UNIT, Snapshot
from sherd.methods.ranking.individual_ranking import Ranking, reduce
from sherd.tables.axis import Axis

if TYPE_CHECKING:
    from collections.abc import Iterator

DRIVER = Path(spark_driver.__file__)
# Short-lived machines of Java: compiling their hottest code costs more than it saves.
LEAN_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


CONFIGURATION = (
    "spark.executor.memory=512m",
    # Slow tasks run twice at once, and whichever attempt ends first is taken.
    "spark.speculation=true",
    "spark.speculation.multiplier=1.1",
    "spark.speculation.quantile=0.25",
    "spark.speculation.minTaskRuntime=0ms",
)


class StandaloneCluster:
    """A real master and workers of one core each, every worker in a process group of its own."""

    def __init__(self, folder: Path) -> None:
        import pyspark

        self.home = Path(pyspark.__file__).parent
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.master = f"spark://127.0.0.1:{self.port}"
        self.started: list[subprocess.Popen[bytes]] = []
        self.workers: list[subprocess.Popen[bytes]] = []
        self._start("master.Master", "--host", "127.0.0.1", "--port", str(self.port))
        for _ in range(2):
            self.add_worker()

    def _start(self, role: str, *given: str) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            **LEAN_JAVA,
            "SPARK_HOME": str(self.home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self.folder / "work"),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        process = subprocess.Popen(
            [self.home / "bin/spark-class", f"org.apache.spark.deploy.{role}", *given],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.started.append(process)
        return process

    def add_worker(self) -> None:
        """Start a worker with one core."""
        options = ("--webui-port", "0", "-c", "1", "-m", "1g", "--host", "127.0.0.1")
        self.workers.append(self._start("worker.Worker", *options, self.master))

    def kill_worker(self) -> None:
        """Kill the oldest worker and its executors, and start another one."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.workers.pop(0).pid, signal.SIGKILL)
        self.add_worker()

    def stop(self) -> None:
        """End everything that was started."""
        for process in self.started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


@pytest.fixture
def cluster(tmp_path: Path, require_or_skip: Any) -> Iterator[StandaloneCluster]:
    """Two workers on this machine."""
    if shutil.which("java") is None:
        require_or_skip("there is no Java")
    try:
        made = StandaloneCluster(tmp_path)
    except ImportError:
        require_or_skip("pyspark is not installed")
    yield made
    made.stop()


def answers(
    master: str,
    tmp_path: Path,
    *given: str,
    on_step: Any = lambda _step: None,
) -> list[dict[str, Any]]:
    """What a driver found out; it is told of every step that begins."""
    log = tmp_path / "driver.log"
    with log.open("wb") as errors:
        driver = subprocess.Popen(
            [sys.executable, str(DRIVER), master, str(tmp_path / "staging"), *given],
            env={
                **os.environ,
                **LEAN_JAVA,
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_SUBMIT_ARGS": " ".join(f"--conf {one}" for one in CONFIGURATION)
                + " pyspark-shell",
            },
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
    found = []
    assert driver.stdout is not None
    begun: set[str] = set()
    try:
        for line in driver.stdout:
            told = json.loads(line)
            if "round" in told:
                found.append(told)
            elif told["step"] not in begun:
                begun.add(told["step"])
                on_step(told["step"])
            else:
                begun.discard(told["step"])
        driver.wait(timeout=60)
    finally:
        driver.kill()
        driver.stdout.close()
        driver.wait()
    assert driver.returncode == 0, log.read_text()[-2000:]
    return found


def holds(found: list[dict[str, Any]], rounds: int) -> None:
    """Every round gave the release of memory, one noise, and every row once."""
    assert len(found) == rounds
    for one in found:
        one.pop("round")
        assert all(one.values()), one


@pytest.mark.timeout(600)
def test_a_worker_killed_on_the_way_changes_nothing(
    tmp_path: Path, cluster: StandaloneCluster
) -> None:
    """Two workers, one killed while sums are made: the same cells, one noise, no row lost."""

    def on_step(step: str) -> None:
        if step == "clusters":
            time.sleep(1)
            cluster.kill_worker()

    holds(answers(cluster.master, tmp_path, "2000", "1", on_step=on_step), 1)
    left = [path.name for path in (tmp_path / "staging").glob("sherd-*/*")]
    assert set(left) == {"release"}, "raw data was left behind"


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_twenty_kills_over_all_steps(tmp_path: Path, cluster: StandaloneCluster) -> None:
    """A worker is killed in every step of every run, at different moments."""
    kills = 0

    def on_step(_step: str) -> None:
        nonlocal kills
        time.sleep(0.5 + 0.5 * (kills % 4))
        cluster.kill_worker()
        kills += 1

    holds(answers(cluster.master, tmp_path, "20000", "4", on_step=on_step), 4)
    assert kills == 20


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("method", ["dp", "idp", "dp-um", "idp-ls", "idp-cbls"])
def test_every_ranking_method_gives_the_cells_of_memory(tmp_path: Path, method: str) -> None:
    """Without noise all five give what the engine `memory` gives, to the bit."""
    pytest.importorskip("pyspark")
    holds(answers("local[2]", tmp_path, "1003", "2", method), 2)


# What executors and driver compute, without a cluster.


@pytest.mark.parametrize("rows", [7, 20, 103, 1000])
@pytest.mark.parametrize("k", [3, 7])
@pytest.mark.parametrize("cuts", [1, 4, 16])
def test_clusters_from_spans_are_those_of_the_whole(rows: int, k: int, cuts: int) -> None:
    """However the ranks are cut into spans, sums and extremes are those of one sort."""
    rng = np.random.default_rng(rows * k + cuts)
    bits = 12
    words = (rng.integers(0, 9, rows).astype(np.uint64) << np.uint64(bits)) | np.arange(
        rows, dtype=np.uint64
    )
    words.sort()
    ranking = Ranking(words=words, bits=bits, k=k, missing=np.empty(0, np.uint32))
    whole = reduce(ranking, 3)
    bounds = [0, *np.sort(rng.integers(0, rows + 1, cuts - 1)).tolist(), rows]
    spans, batches = {}, []
    for at, (start, stop) in enumerate(itertools.pairwise(bounds)):
        if stop > start:
            spans[0, at] = Span(start=start, count=stop - start, total=rows, k=k)
            mixed = rng.permutation(words[start:stop])
            batches += [
                record("words", len(piece), piece.tobytes(), column=0, span=at)
                for piece in np.array_split(mixed, 2)
            ]
    ranks = list(SortSpans(bits=bits, ties=(0,))(iter(batches)))
    out = list(ReduceSpans(spans=spans, depth=3)(iter(ranks)))
    kinds: dict[str, list[Any]] = {"sums": [], "edge": []}
    for one in records(out):
        kinds[one["kind"]].append((one["rows"], one["block"]))
    edges = [(rank, np.frombuffer(raw, np.int64)) for rank, raw in kinds["edge"]]
    sums = [(first, unpacked(block)) for first, block in kinds["sums"]]
    made = gathered(rows, k, 3, sums, edges)
    for name in ("sizes", "sums"):
        assert (getattr(made, name) == getattr(whole, name)).all()
    for i in range(3):
        assert (made.low[i] == whole.low[i]).all()
        assert (made.high[i] == whole.high[i]).all()
    if sums or edges:
        with pytest.raises(InternalError, match="lacks words"):
            gathered(rows, k, 3, sums, edges[1:] if edges else [])
    places = np.concatenate([np.frombuffer(one["block"], np.uint32) for one in records(ranks)])
    assert (places == words & np.uint64((1 << bits) - 1)).all()


def test_a_span_that_lost_a_block_is_refused() -> None:
    """Fewer words than were counted end the step."""
    span = {(0, 0): Span(start=0, count=9, total=9, k=3)}
    block = np.arange(8, dtype=np.uint64).tobytes()
    ranks = SortSpans(bits=4, ties=(0,))(iter([record("words", 8, block, column=0, span=0)]))
    with pytest.raises(InternalError, match="another number"):
        list(ReduceSpans(spans=span, depth=1)(ranks))


@pytest.mark.parametrize("gathered_rows", [1, 300, 10_000])
def test_words_of_a_snapshot_hold_every_present_cell_once(gathered_rows: int) -> None:
    """However many blocks are worked on at once: every place once, at its own position."""
    pytest.importorskip("pyspark")
    axes = (Axis.of(SCHEMA["age"]), Axis.of(SCHEMA["town"]))
    snapshot = Snapshot(schema=SCHEMA, axes=axes, parts=4, shuffle=True, gathered=200)
    told = list(records(snapshot(iter(table_of(700, 1).to_batches(90)))))
    taken = [one for one in told if one["kind"] == "rows"]
    blocks, start = {}, 0
    for number, one in enumerate(taken):
        key = (one["part"], one["task"], one["span"])
        blocks[key] = RowBlock(number=number, start=start)
        start += one["rows"]
    packing = PackWords(
        axes=axes,
        bits=10,
        blocks=blocks,
        splitters=(np.array([5 << 26], np.uint64), np.array([], np.uint64)),
        tie_seeds=(np.arange(6, dtype=np.uint64), None),
        gathered=gathered_rows,
    )
    fields = ("part", "task", "span")
    given = [
        record("rows", o["rows"], o["block"].to_pybytes(), **{f: o[f] for f in fields})
        for o in taken
    ]
    words: dict[int, list[Any]] = {0: [], 1: []}
    for one in records(packing(iter(given))):
        words[one["column"]].append(np.frombuffer(one["block"], np.uint64))
        if one["column"] == 0:
            assert ((words[0][-1] >= 5 << 26) == (one["span"] == 1)).all()
    codes = pa.concat_tables([unpacked(one["block"]) for one in taken])
    for number, (name, shift) in enumerate((("age", 26), ("town", 10))):
        found = np.concatenate(words[number])
        place = (found & np.uint64(1023)).astype(int)
        column = codes.column(name).to_pylist()
        assert sorted(place) == [at for at, cell in enumerate(column) if cell is not None]
        assert (found >> np.uint64(shift)).tolist() == [column[at] for at in place]


@pytest.mark.parametrize("told", [[(0, 5), (1, 4)], [(0, 6), (1, 5)], [(0, 5), (0, 5)]])
def test_ranks_lost_or_made_twice_are_refused(told: list[tuple[int, int]]) -> None:
    """The ranks of an attribute must be as many as its values in the snapshot, before any noise."""
    ranks = MagicMock()
    ranks.select.return_value.collect.return_value = [
        SimpleNamespace(column=0, span=span, rows=rows) for span, rows in told
    ]
    job: Any = SimpleNamespace(axis=Axis.of(SCHEMA["age"]), k=2)
    rows = Rows(frame=None, blocks={}, counts={0: 10}, present=(10,), treated=())
    with pytest.raises(InternalError, match="lost or made twice"):
        spans_of([job], ranks, rows)


def test_rows_are_drawn_into_parts_once_each() -> None:
    """A snapshot holds every row once, in some part, and draws afresh for every attempt."""
    pytest.importorskip("pyspark")
    table = table_of(500, 1)
    took = [
        list(
            Snapshot(schema=SCHEMA, axes=(), parts=8, shuffle=True, gathered=200)(
                iter(table.to_batches(90))
            )
        )
        for _ in range(2)
    ]
    weights = []
    for out in took:
        seen: list[float] = []
        for _key, blocks in groups(out, "task"):
            assert len({one["attempt"] for one in blocks}) == 1
            for one in blocks:
                if one["kind"] == "rows":
                    seen += unpacked(one["beside"]).column(WEIGHT).to_pylist()
        assert sorted(seen) == sorted(table.column(WEIGHT).to_pylist())
        weights.append(seen)
    assert weights[0] != weights[1], "two attempts drew the same order"


def test_a_snapshot_adds_up_the_units_it_read() -> None:
    """Numbered columns get their names back; hashes of units are summed exactly, beyond 64 bits."""
    pytest.importorskip("pyspark")
    table = table_of(50, 1)
    hashes = np.array([2**63 - 1, -(2**63), 2**62, 2**63 - 1, -5] * 10, np.int64)
    given = table.rename_columns([f"c{at}" for at in range(table.num_columns)])
    given = given.append_column(UNIT, pa.array(hashes))
    snapshot = Snapshot(
        schema=SCHEMA, axes=(), parts=8, shuffle=False, names=tuple(table.column_names)
    )
    out = list(records(snapshot(iter(given.to_batches(7)))))
    assert json.loads(out[-1]["note"])["units"] == sum(hashes.tolist())
    rows = pa.concat_tables([unpacked(one["beside"]) for one in out if one["kind"] == "rows"])
    assert rows.column(WEIGHT).equals(table.column(WEIGHT))


def test_a_refusal_in_a_task_is_told_as_a_record() -> None:
    """A table that the schema refuses ends in a message without a cell, not in a traceback."""
    pytest.importorskip("pyspark")
    table = table_of(50, 1).set_column(0, "age", pa.array(["unspeakable"] * 50))
    out = list(Snapshot(schema=SCHEMA, axes=(), parts=4, shuffle=True)(iter(table.to_batches())))
    assert out[-1].column("kind").to_pylist() == ["failed"]
    assert "unspeakable" not in out[-1].column("note")[0].as_py()


def committed(facts: list[tuple[int, str, str, int]], note: str = "") -> Any:
    """As much of a committed frame as the check of attempts asks for."""
    frame = MagicMock()
    frame.select.return_value.collect.return_value = [
        SimpleNamespace(task=task, attempt=attempt, kind=kind, rows=rows, note=note)
        for task, attempt, kind, rows in facts
    ]
    return frame


@pytest.mark.parametrize(
    ("facts", "fine"),
    [
        ([(0, "a", "rows", 5), (0, "a", "count", 5), (1, "b", "count", 0)], True),
        ([(0, "a", "rows", 3), (0, "b", "rows", 2), (0, "b", "count", 5)], False),
        ([(0, "a", "rows", 4), (0, "a", "count", 5)], False),
        ([(0, "a", "rows", 5)], False),
    ],
)
def test_a_mix_of_attempts_is_refused(facts: list[Any], fine: bool) -> None:
    """Blocks of two attempts, missing blocks and a task without its count are found."""
    stages = object.__new__(SparkStages)
    if fine:
        assert len(stages.facts(committed(facts))) == len(facts)
    else:
        with pytest.raises(InternalError, match="different attempts"):
            stages.facts(committed(facts))


def test_a_task_that_refused_refuses_the_run() -> None:
    """The driver raises what the task could not."""
    told = json.dumps({"message": "no such thing"})
    with pytest.raises(TableError, match="no such thing"):
        object.__new__(SparkStages).facts(committed([(0, "a", "failed", 0)], told))


@pytest.mark.parametrize("twice", [True, False])
def test_a_cell_lost_or_sent_twice_is_refused(twice: bool) -> None:
    """Every place of a part must be filled exactly once."""
    places = np.array([0, 1, 1] if twice else [0, 2], np.uint32)
    sent = [places[:2], places[2:]] if twice else [places]
    run = np.ones(1, np.uint32)
    cells = [
        record(
            "cells",
            len(p),
            p.tobytes(),
            beside=(run * len(p)).tobytes() + np.zeros(1, np.int64).tobytes(),
            part=0,
            column=0,
        )
        for p in sent
    ]
    order = pa.table({ORDER: pa.array([0, 1, 2], pa.uint64())})
    batches = [*cells, record("rows", 3, beside=packed(order), part=0)]
    axis: Any = SimpleNamespace(name="age")
    work = Assemble(
        axes=(axis,),
        kinds=("<i8",),
        finish=lambda _name, cells, _missing: pa.array(cells),
        names=("age",),
        form=pa.schema([("age", pa.int64())]),
    )
    with pytest.raises(InternalError, match="twice" if twice else "did not reach"):
        list(work(iter(batches)))


@pytest.mark.parametrize(
    ("more", "seeded", "named"),
    [
        ({}, True, "a seed"),
        ({"guarantee": "strict"}, False, "strict"),
        ({"domain_from_data": 1.5}, False, "domain-from-data"),
        ({"category_order": "frequency"}, False, "category-order"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_first(
    more: dict[str, Any], seeded: bool, named: str
) -> None:
    """Plans that would need another pass over the data say so before anything is read."""
    plan = sherd.Plan(method="dp-um", epsilon=1, k=5, **more)
    with pytest.raises(PlanError, match=named):
        check_plan(plan, seeded)


class Session:
    """A session that knows its master only."""

    def __init__(self, master: str) -> None:
        self.conf = {"spark.master": master}


def test_a_cluster_needs_a_folder_that_all_can_reach(tmp_path: Path) -> None:
    """Off one machine a folder must be named; on one, a fresh one is made."""
    with pytest.raises(UsageError, match="every executor can reach"):
        SparkStages(Session("yarn"))
    named = SparkStages(Session("yarn"), "s3a://bucket/staging/")
    assert named.folder.startswith("s3a://bucket/staging/sherd-")
    local = SparkStages(Session("local[2]"), str(tmp_path))
    assert oct(Path(local.folder).stat().st_mode & 0o777) == "0o700"
    for name in ("rows", "release"):
        (Path(local.folder) / name).mkdir(parents=True)
    local.remove(but="release")
    assert [path.name for path in Path(local.folder).iterdir()] == ["release"]
    local.remove()
    assert not Path(local.folder).exists()
    nowhere = SparkStages(Session("local[2]"))
    assert Path(nowhere.folder).parent == Path(tempfile.gettempdir())
    nowhere.remove()
    assert not Path(nowhere.folder).exists()


def test_settings_of_a_step_are_put_back(tmp_path: Path) -> None:
    """What the session was told before is what it is told afterwards, whatever a step needs."""

    class Told(dict[str, str]):
        set = dict.__setitem__
        unset = dict.__delitem__

    session = Session("local[2]")
    session.conf = Told({"spark.master": "local[2]", "spark.sql.files.maxPartitionBytes": "9"})
    before = dict(session.conf)
    stages = SparkStages(session, str(tmp_path))
    with (
        contextlib.suppress(InternalError),
        stages._settings({"a": "1", "spark.sql.files.maxPartitionBytes": "7"}),
    ):
        assert session.conf.get("a") == "1"
        assert session.conf.get("spark.sql.files.maxPartitionBytes") == "7"
        raise InternalError("the step fails")
    assert session.conf == before


def test_rows_of_a_fixed_width_are_counted_and_not_weighed() -> None:
    """Spark weighs a batch after each row; only texts need that, wide tables get fewer rows."""
    types = pytest.importorskip("pyspark.sql.types")

    def needed(*kinds: Any) -> dict[str, str]:
        fields = [types.StructField(f"c{at}", kind) for at, kind in enumerate(kinds)]
        return spark_stages._for_rows(SimpleNamespace(schema=types.StructType(fields)))

    numbers = [types.DoubleType(), types.IntegerType(), types.DateType(), types.TimestampType()]
    batch, weight = (f"spark.sql.execution.arrow.max{w}PerBatch" for w in ("Records", "Bytes"))
    assert needed(*numbers) == {batch: "65536", weight: str(2**31 - 1)}
    assert needed(*numbers, types.StringType()) == {batch: "65536"}
    assert int(needed(*numbers * 1000)[batch]) * 4000 * 16 <= 64 << 20


def test_executors_without_sherd_are_named(tmp_path: Path) -> None:
    """The cluster's own error is turned into what to do about it."""

    class Writer:
        def option(self, *_given: str) -> Writer:
            return self

        def options(self, **_given: str) -> Writer:
            return self

        def parquet(self, _path: str) -> None:
            raise RuntimeError("ModuleNotFoundError: No module named 'sherd'")

    class Committed:
        write = Writer()

    with pytest.raises(MissingPartError, match="executors do not have Sherd"):
        SparkStages(Session("local"), str(tmp_path)).commit("rows", Committed())


def test_spark_that_does_not_start_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A master that does not answer, or no Java, is no fault of Sherd's."""
    sql = pytest.importorskip("pyspark.sql")
    builder = MagicMock()
    builder.master.return_value.appName.return_value.config.return_value.getOrCreate.side_effect = (
        RuntimeError("all masters are unresponsive")
    )
    monkeypatch.setattr(sql.SparkSession, "builder", builder)
    with pytest.raises(UsageError, match=r"Spark cannot be started.*spark://nobody:1"):
        spark_stages.spark_session("spark://nobody:1")


@pytest.mark.parametrize("source", ["t.csv", "s3a://bucket/T.CSV.gz", "t.tsv", "t.tsv.gz"])
def test_csv_is_read_as_elsewhere(source: str) -> None:
    """Doubled quotes, cells of several lines, and no row that lacks cells."""
    session = MagicMock()
    spark_stages.spark_frame(session, source)
    options = session.read.options.call_args.kwargs
    assert options == {
        "header": True,
        "escape": '"',
        "multiLine": True,
        "mode": "FAILFAST",
        "sep": "\t" if ".tsv" in source else ",",
    }
    session.read.options.return_value.csv.assert_called_once_with(source)


def test_a_table_that_spark_cannot_read_is_named() -> None:
    """Everything else is read as Parquet, and refused with its address where it is none."""
    session = MagicMock()
    session.read.parquet.side_effect = ValueError("relative path in absolute URI")
    with pytest.raises(TableError, match=r"Spark cannot read the table.*:adult"):
        spark_stages.spark_frame(session, ":adult")


def test_rows_that_do_not_fit_their_header_are_refused_unquoted(tmp_path: Path) -> None:
    """Spark's own words quote the row."""
    session, frame = MagicMock(), MagicMock()
    session.conf.get.side_effect = lambda _name, default=None: default
    frame.write.option.return_value.options.return_value.parquet.side_effect = RuntimeError(
        "[MALFORMED_RECORD_IN_PARSING] Malformed records: [secret]"
    )
    with pytest.raises(TableError, match="rows that do not fit its header") as refused:
        SparkStages(session, str(tmp_path)).commit("rows", frame)
    assert "secret" not in str(refused.value)


def test_other_frames_are_not_taken_for_sparks() -> None:
    """Pandas' DataFrame has the same name and is another thing."""
    import pandas as pd

    assert not is_spark_frame(pd.DataFrame({"a": [1]}))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_command_protects_on_a_cluster(tmp_path: Path, require_or_skip: Any) -> None:
    """`--engine spark` charges the ledger, writes a bundle that verifies, and leaves nothing."""
    if shutil.which("java") is None:
        require_or_skip("there is no Java")
    import pyarrow.parquet as pq

    (tmp_path / "staging").mkdir()
    pq.write_table(table_of(300, 1), tmp_path / "people.parquet")
    (tmp_path / "schema.yaml").write_text(json.dumps(SCHEMA.as_data()), encoding="utf-8")
    command = [sys.executable, "-m", "sherd"]
    done = subprocess.run(
        [
            *command, "protect", str(tmp_path / "people.parquet"),
            "--schema", str(tmp_path / "schema.yaml"), "-m", "dp-um", "-e", "1", "-k", "5",
            "--engine", "spark", "--master", "local[1]", "--staging", str(tmp_path / "staging"),
            "--ledger", str(tmp_path / "ledger.db"), "-o", str(tmp_path / "out"), "--json",
        ],
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": "--conf spark.sherd.parts=2 pyspark-shell"},
        capture_output=True,
        text=True,
        check=False,
        timeout=1000,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    told = json.loads(done.stdout)
    assert told["account"]["spent"] == 1
    assert not list((tmp_path / "staging").glob("sherd-*"))
    release = sherd.Release.load(tmp_path / "out")
    assert release.rows == 300
    assert sorted(release.table.column(WEIGHT).to_pylist()) == sorted(
        table_of(300, 1).column(WEIGHT).to_pylist()
    )
    checked = subprocess.run([*command, "verify", str(tmp_path / "out")], check=False, timeout=300)
    assert checked.returncode == 0


def test_options_of_one_machine_do_not_go_with_a_cluster(tmp_path: Path) -> None:
    """What needs the rows on this machine is refused before anything is started."""
    from sherd.cli.releasing import protect_on_cluster

    asked = {"row_map": tmp_path / "map.csv", "record": None, "key": None, "query": None}
    with pytest.raises(UsageError, match="--row-map"):
        protect_on_cluster(asked, SCHEMA, MagicMock(), tmp_path, None, MagicMock())
