"""``spark``: steps on a cluster, each committed to files before anything reads it.

A step is a function from blocks to blocks that executors run (``mapInArrow``). Its result is
written by Spark's own committer, which takes one attempt of every task, and read back from the
files: a task that is tried again, twice at once, or after its executor was lost, can therefore
never mix two attempts into what is read. **Everything random is committed before anything
reads it; nothing after a commit is random.**

Cells do not travel one by one: a record holds a block of them, so that Spark moves few large
records and numpy touches the cells. Blocks carry the attempt that made them; a mix of two
attempts is seen and refused.

What is staged holds raw data. It lies in a folder that every executor can reach, and is
removed when the run ends; a driver that dies leaves it behind under ``sherd-`` and a random name.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sherd.engines.spark_failures import quieten, spark_failures
from sherd.errors import InternalError, MissingPartError, TableError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]

RECORD = pa.schema(
    [
        ("kind", pa.string()),
        ("task", pa.int32()),
        ("attempt", pa.string()),
        ("part", pa.int32()),
        ("column", pa.int32()),
        ("span", pa.int32()),
        ("rows", pa.int64()),
        ("note", pa.string()),
        ("block", pa.binary()),
        ("beside", pa.binary()),
    ]
)
"""The form of every record between steps; what a field means is the step's affair.

Parquet reads the fields that are asked for: what a step needs without the block lies beside it.
"""

BLOCKS = (
    "kind string, task int, attempt string, part int, column int, span int, rows long, "
    "note string, block binary, beside binary"
)
"""The same for Spark."""

_STAGING = "spark.sherd.staging"
_PARTS = "spark.sherd.parts"
LEAST_PARTS = 16
_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
_SPLIT = "spark.sql.files.maxPartitionBytes"
_ROWS_AT_ONCE = 1 << 16
_BLOCKS_AT_ONCE = 8
_BYTES_IN_A_BATCH = 64 << 20
_BYTES_READ_BY_A_TASK = 64 << 20
_FAILED = "failed"


def is_spark_frame(frame: Any) -> bool:
    """Whether this is a DataFrame of Spark, of a plain session or over Spark Connect."""
    kind = type(frame)
    return kind.__name__ == "DataFrame" and kind.__module__.split(".")[:2] == ["pyspark", "sql"]


def spark_session(master: str | None = None) -> Any:
    """The session there is, or one that is started at this master."""
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise MissingPartError(
            "the engine spark is not installed",
            must="the package pyspark, and Java 17 or newer",
            do="install it with `pip install 'sherd[spark]'`",
        ) from None
    builder: Any = SparkSession.builder
    # Executors on this machine run the Python that has Sherd.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master is not None:
        builder = builder.master(master)
    named = builder.appName("sherd").config("spark.ui.showConsoleProgress", "false")
    try:
        session = named.getOrCreate()
    except Exception as error:
        raise UsageError(
            "Spark cannot be started",
            must="a master that answers, such as local[2], yarn or spark://host:7077, and Java 17 "
            "or newer",
            got=f"{master or 'the settings of Spark'}: {type(error).__name__}",
            do="correct --master, or install Java; what Spark wrote above says more",
        ) from error
    quieten(session)
    return session


def spark_frame(session: Any, source: str) -> Any:
    """The table at a path or an address, as Spark reads it: CSV by its suffix, Parquet otherwise.

    Of CSV, quotes are doubled inside quotes and a quoted cell may hold the end of a line: as Spark
    reads it otherwise, such a row would become two, and cells that are lacking would be missing.
    """
    name = source.lower().removesuffix(".gz")
    read = session.read
    try:
        if not name.endswith((".csv", ".tsv")):
            return read.parquet(source)
        text = {"header": True, "escape": '"', "multiLine": True, "mode": "FAILFAST"}
        return read.options(**text, sep="\t" if name.endswith(".tsv") else ",").csv(source)
    except Exception as error:
        raise TableError(
            "Spark cannot read the table",
            must="a path or an address of Parquet files, or of CSV files with a header row",
            got=f"{source}: {type(error).__name__}",
            do="correct it; a table that Sherd ships is on no cluster: write it to a file first",
        ) from error


_BLOCKS_WRITTEN = {
    # A record can be a block of many megabytes, so Parquet must look at the size after each one:
    # it looks after a hundred otherwise, by when a task's whole part fills Java's memory.
    "parquet.block.size": str(32 << 20),
    "parquet.enable.dictionary": "false",  # it would look at every byte of every block
    "parquet.block.size.row.check.min": "1",
    "parquet.block.size.row.check.max": "1",
    "parquet.page.size.row.check.min": "1",
    "parquet.page.size.row.check.max": "1",
}
"""How blocks are written."""


class SparkStages:
    """The steps of one run: their folder, and how they are committed."""

    def __init__(
        self,
        session: Any,
        folder: str | None = None,
        *,
        progress: Callable[[str, int, int], None] = lambda _step, _done, _total: None,
        steps: int = 5,
    ) -> None:
        self.session = session
        self._progress, self._done, self._steps = progress, 0, steps
        base = folder or session.conf.get(_STAGING, None)
        alone = session.conf.get("spark.master", "").startswith("local")
        if base is None:
            base = _local_folder(alone)
        self.folder = f"{base.rstrip('/')}/sherd-{secrets.token_hex(8)}"
        if alone and "://" not in self.folder:
            # Spark would let everybody read it; other machines' users must reach theirs.
            Path(self.folder).mkdir(mode=0o700, parents=True)

    @property
    def parallelism(self) -> int:
        """How many tasks the cluster runs at once, as far as it says so."""
        with contextlib.suppress(Exception):  # Spark Connect does not tell
            return int(self.session.sparkContext.defaultParallelism)
        return int(self.session.conf.get("spark.sql.shuffle.partitions", "16"))

    @property
    def parts(self) -> int:
        """How many parts a table is cut into; a part must fit into an executor's memory."""
        asked = self.session.conf.get(_PARTS, None)
        return int(asked) if asked else max(LEAST_PARTS, 2 * self.parallelism)

    def step(
        self,
        name: str,
        frame: Any,
        work: Work,
        schema: Any = BLOCKS,
        *,
        rows: bool = False,
    ) -> Any:
        """Run a step over the frame's batches, commit what it made and read that back.

        ``rows`` says that the frame holds rows of a table and not blocks.
        """
        with self._settings(_for_rows(frame) if rows else _FOR_BLOCKS):
            return self.commit(name, frame.mapInArrow(work, schema), blocks=schema is BLOCKS)

    def commit(self, name: str, frame: Any, *, blocks: bool = True) -> Any:
        """Write a frame of blocks, or of rows, and give back what was written."""
        self._progress(name, self._done, self._steps)
        path = f"{self.folder}/{name}"
        with spark_failures():
            # Blocks are random words or small: packing them costs more than it saves.
            writer = frame.write.option("compression", "none")
            (writer.options(**_BLOCKS_WRITTEN) if blocks else writer).parquet(path)
        self._done += 1
        self._progress(name, self._done, self._steps)
        return self.session.read.schema(frame.schema).parquet(path)

    def facts(self, committed: Any) -> list[Any]:
        """What a committed step says of its blocks, without them: one attempt of every task.

        Every task ends with a record of the kind ``count``, whose rows are those of all its
        blocks. A step in which a task's blocks are of two attempts, or are missing, is refused.
        """
        told = committed.select("kind", "task", "attempt", "part", "span", "rows", "note").collect()
        for one in told:
            if one.kind == _FAILED:
                raise TableError(json.loads(one.note)["message"])
        attempts: dict[int, set[str]] = {}
        blocks: dict[int, int] = {}
        counted: dict[int, int] = {}
        for one in told:
            attempts.setdefault(one.task, set()).add(one.attempt)
            into = counted if one.kind == "count" else blocks
            into[one.task] = into.get(one.task, 0) + int(one.rows)
        mixed = any(len(of_task) > 1 for of_task in attempts.values())
        if mixed or any(counted.get(task) != blocks.get(task, 0) for task in attempts):
            raise InternalError(
                "the cluster kept parts of different attempts of a task; nothing was released"
            )
        return list(told)

    def collect(self, name: str, frames: Sequence[Any], work: Work) -> Iterator[list[Any]]:
        """Run a step that makes little out of what was committed, and bring that to the driver."""
        self._progress(name, self._done, self._steps)
        for frame in frames:
            with self._settings(_FOR_BLOCKS):
                told = list(frame.mapInArrow(work, BLOCKS).collect())
            yield told
        self._done += 1
        self._progress(name, self._done, self._steps)

    def remove(self, but: str | None = None) -> None:
        """Remove everything that was staged, but for one step's files."""
        if "://" not in self.folder or self.folder.startswith("file://"):
            folder = Path(self.folder.removeprefix("file://"))
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name != but:
                    shutil.rmtree(path, ignore_errors=True)
            if but is None:
                shutil.rmtree(folder, ignore_errors=True)
            return
        with contextlib.suppress(Exception):  # the documentation says what may be left behind
            java = self.session._jvm.org.apache.hadoop.fs  # noqa: SLF001 - no other door
            top = java.Path(self.folder)
            files = top.getFileSystem(self.session._jsc.hadoopConfiguration())  # noqa: SLF001
            for one in files.listStatus(top) if but is not None else ():
                if one.getPath().getName() != but:
                    files.delete(one.getPath(), True)
            if but is None:
                files.delete(top, True)

    @contextlib.contextmanager
    def _settings(self, wanted: dict[str, str]) -> Iterator[None]:
        """The session's settings for one step; what they were before is put back."""
        before = {name: self.session.conf.get(name, None) for name in wanted}
        for name, value in wanted.items():
            self.session.conf.set(name, value)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    self.session.conf.unset(name)
                else:
                    self.session.conf.set(name, value)


_FOR_BLOCKS = {_BATCH: str(_BLOCKS_AT_ONCE), _SPLIT: str(_BYTES_READ_BY_A_TASK)}
"""Few blocks at once, and tasks small enough that no core waits long for the last of them."""


def _for_rows(frame: Any) -> dict[str, str]:
    """As many rows at once as fit.

    Spark would weigh the whole batch after each of its rows; where all columns have a fixed
    width, the number of rows says as much.
    """
    from pyspark.sql import types

    times = (types.DateType, types.TimestampType, types.TimestampNTZType)
    fixed = (types.NumericType, types.BooleanType, *times)
    widths = [isinstance(field.dataType, fixed) for field in frame.schema.fields]
    if not widths or not all(widths):
        return {_BATCH: str(_ROWS_AT_ONCE)}
    rows = _BYTES_IN_A_BATCH // (16 * len(widths))
    return {
        _BATCH: str(max(1, min(_ROWS_AT_ONCE, rows))),
        _BATCH_BYTES: str(2**31 - 1),
    }


def in_its_own_partition(number: Any, partitions: int) -> Any:
    """A column to partition by that puts record ``number`` into partition ``number % partitions``.

    Spark partitions by a hash, so that of sixteen numbers three may meet in one partition and
    leave another one empty: the cores then wait for the one that has three. Here each number
    stands for a word whose hash is the partition. Were it another hash, the numbers would be
    spread as unevenly as before, and nothing else would change.
    """
    from pyspark.sql import functions as spark

    words: dict[int, int] = {}
    word = 0
    while len(words) < partitions:
        words.setdefault(_spark_hash(word) % partitions, word)
        word += 1
    listed = spark.array(*(spark.lit(words[at]) for at in range(partitions)))
    return spark.element_at(listed, (number % partitions + 1).cast("int"))


def _spark_hash(word: int) -> int:
    """Spark's hash of a 32-bit number (Murmur 3, seed 42), as a signed number.

    >>> [_spark_hash(word) for word in (0, 1, 42)]
    [933211791, -559580957, 29417773]
    """
    mask = 0xFFFFFFFF

    def turned(value: int, by: int) -> int:
        return ((value << by) | (value >> (32 - by))) & mask

    mixed = turned(word * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    value = (turned(42 ^ mixed, 13) * 5 + 0xE6546B64) & mask
    value ^= 4  # its length in bytes
    value = (value ^ (value >> 16)) * 0x85EBCA6B & mask
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & mask
    value ^= value >> 16
    return value - (1 << 32) if value >> 31 else value


def _local_folder(alone: bool) -> str:
    import tempfile

    if not alone:
        raise UsageError(
            "the engine spark needs a folder that every executor can reach",
            must="an address such as s3a://bucket/staging, hdfs:///staging or a shared mount",
            got="none",
            do=f"name it in the setting {_STAGING}, or with --staging",
        )
    return tempfile.gettempdir()


def failure(error: Exception) -> str:
    """What a task that must refuse tells the driver: the message, which holds no cell."""
    return json.dumps({"message": str(error)})
