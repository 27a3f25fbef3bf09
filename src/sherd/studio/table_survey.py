"""One pass over a table: how many rows, what is missing, which labels, and a sample of its rows.

No more than a block of the table and the sample are in memory at a time, however long the table
is. Labels are complete where an attribute has few of them; everything else is of the sample.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from sherd.errors import FormatError, TableError, UsageError
from sherd.tables.canonical_form import is_text
from sherd.tables.conform import check_names
from sherd.tables.csvfile import layout, options, parsing
from sherd.tables.guess import LISTED
from sherd.tables.textfile import COMPRESSIONS, open_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sherd.studio.workspace import Project

SAMPLE = 50_000
"""Rows that are always kept where there are so many; at most twice as many are in memory."""

HEAD = 100
"""Rows that a page shows, and columns of them."""

LONGEST = 200
"""Letters of a cell that a page shows."""

MOST_EXPANDED = 1 << 28
"""Bytes that a compressed file may always grow to."""

MOST_RATIO = 100
"""How many times its size a compressed file may grow to beyond that."""


@dataclass(kw_only=True)
class Survey:
    """What one pass found; ``sample`` holds every label of attributes that have few."""

    rows: int = 0
    sample: pa.Table | None = None
    sampled: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    counted: tuple[str, ...] = ()


def _expanded(path: Path) -> None:
    """Refuse a compressed file that would become far too large, before its text is parsed."""
    suffix = path.suffix.lower()
    if suffix in COMPRESSIONS:
        most = max(MOST_EXPANDED, MOST_RATIO * path.stat().st_size)
        stream, _ = open_text(path)
        size = 0
        with stream:
            while block := stream.read(1 << 20):
                size += len(block)
                if size > most:
                    raise _too_dense()
    elif suffix in (".parquet", ".pq"):
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            cells = file.metadata.num_rows * max(1, file.metadata.num_columns)
        # A cell takes a byte at least; dictionaries and runs hide that from the metadata.
        if cells > max(MOST_EXPANDED, MOST_RATIO * path.stat().st_size):
            raise _too_dense()


def _too_dense() -> FormatError:
    return FormatError(
        "the file would become far too large when unpacked",
        must=f"at most {MOST_RATIO} times its size",
        do="unpack it yourself if you trust it, and open the result",
    )


def batches_of(project: Project, *, as_text: bool = False) -> Iterator[pa.RecordBatch]:
    """The table, a block at a time; with ``as_text`` a text file's cells stay what they are."""
    path = _file_of(project)
    kind = "" if path is None else path.suffix.lower()
    if path is None or kind in (".feather", ".arrow", ".ipc", ".arrows"):
        yield from project.read().to_batches(max_chunksize=1 << 16)
        return
    if not path.is_file():
        raise UsageError("the file does not exist", got=str(path), do="check the path")
    try:
        _expanded(path)
        if kind in (".parquet", ".pq"):
            import pyarrow.parquet as pq

            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(batch_size=1 << 16)
        else:
            yield from _csv(path, as_text)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, pa.ArrowInvalid) and kind not in (".parquet", ".pq") and not as_text:
            raise
        project.read()  # says where it is wrong without saying what stands there
        raise


def _file_of(project: Project) -> Path | None:
    """The file a project's table lies in, None for a database."""
    from sherd import datasets
    from sherd.tables.sql import is_address

    if project.bundled is not None:
        return datasets.path(project.bundled)
    return None if is_address(project.source) else Path(project.source)


def _csv(path: Path, as_text: bool) -> Iterator[pa.RecordBatch]:
    seen = layout(path)
    check_names(seen.names, shown=str(path))
    convert = options(seen, None)
    if as_text:
        convert.column_types = dict.fromkeys(seen.names, pa.string())
    stream, _ = open_text(path)
    with (
        stream,
        pacsv.open_csv(
            pa.PythonFile(stream, "r"),
            read_options=pacsv.ReadOptions(block_size=1 << 20),
            parse_options=parsing(seen),
            convert_options=convert,
        ) as reader,
    ):
        for batch in reader:
            yield batch.rename_columns(list(seen.names))


def head(project: Project) -> tuple[list[str], list[list[str | None]]]:
    """The first rows as text, without reading more than a file's beginning."""
    path = _file_of(project)
    text = path is not None and not {".parquet", ".pq", ".feather", ".arrow"} & set(path.suffixes)
    if path is not None and text:
        seen = layout(path)
        return list(seen.names), [_short(cell or None for cell in row) for row in seen.rows[:HEAD]]
    first = next(iter(batches_of(project)), None)
    if first is None:
        raise TableError("the table has no rows", must="at least one row")
    cells = first.slice(0, HEAD).to_pylist()
    return list(first.schema.names), [_short(row.values()) for row in cells]


def _short(row: Iterable[Any]) -> list[str | None]:
    """A row as a page shows it: no more cells, and no longer ones, than a person reads."""
    texts = (None if cell is None else str(cell) for cell in itertools.islice(row, HEAD))
    return [t if t is None or len(t) <= LONGEST else f"{t[:LONGEST]}…" for t in texts]


def survey(project: Project, tell: Callable[[str, int, int], None], seed: int = 0) -> Survey:
    """Everything that one pass over a project's table finds out."""
    try:
        return _survey(batches_of(project), tell, seed)
    except pa.ArrowInvalid:
        # A column whose later cells do not fit its first ones: all cells as text, then.
        return _survey(batches_of(project, as_text=True), tell, seed)


def _survey(
    batches: Iterable[pa.RecordBatch], tell: Callable[[str, int, int], None], seed: int
) -> Survey:
    draws = np.random.default_rng(seed)
    survey = Survey()
    sampled: list[pa.RecordBatch] = []
    every = 1  # one row of so many is kept
    labels: dict[str, set[Any]] = {}
    ends: dict[str, tuple[int, int]] = {}
    schema: pa.Schema | None = None
    for batch in batches:
        if schema is None:
            schema = batch.schema
            labels = {f.name: set() for f in schema if is_text(f.type)}
            survey.missing = dict.fromkeys(schema.names, 0)
        survey.rows += batch.num_rows
        _count(batch, survey.missing, labels, ends)
        sampled.append(_thinned(batch, every, draws))
        survey.sampled = sum(part.num_rows for part in sampled)
        while survey.sampled > 2 * SAMPLE:
            every *= 2
            sampled = [_thinned(part, 2, draws) for part in sampled]
            survey.sampled = sum(part.num_rows for part in sampled)
        tell("reading", survey.rows, 0)
    if schema is None or not survey.rows:
        raise TableError("the table has no rows", must="at least one row")
    sample = pa.Table.from_batches(sampled, schema)
    survey.counted = tuple(
        name for name, (low, high) in ends.items()
        if high - low == survey.rows - 1 > 8 and _distinct(sample[name])
    )  # fmt: skip
    survey.sample = _with_labels(sample, labels)
    return survey


def _distinct(column: pa.ChunkedArray) -> bool:
    return bool(pc.count_distinct(column).as_py() == len(column))


def _thinned(batch: pa.RecordBatch, every: int, draws: np.random.Generator) -> pa.RecordBatch:
    if every == 1:
        return batch
    places = np.flatnonzero(draws.random(batch.num_rows) < 1 / every)
    return batch.take(pa.array(places))


def _count(
    batch: pa.RecordBatch,
    missing: dict[str, int],
    labels: dict[str, set[Any]],
    ends: dict[str, tuple[int, int]],
) -> None:
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        missing[name] += column.null_count
        if name in labels:
            labels[name].update(pc.unique(column).to_pylist())
            if len(labels[name]) > 2 * LISTED:
                del labels[name]  # too many to list: the sample's will do
        elif pa.types.is_integer(column.type) and column.null_count < len(column):
            both = pc.min_max(column)
            low, high = both["min"].as_py(), both["max"].as_py()
            before = ends.get(name, (low, high))
            ends[name] = (min(low, before[0]), max(high, before[1]))


def _with_labels(sample: pa.Table, labels: dict[str, set[Any]]) -> pa.Table:
    """The sample, and below it a row for every label that it lacks."""
    lacking = {
        name: sorted(labelled - {None} - set(pc.unique(sample[name]).to_pylist()))
        for name, labelled in labels.items()
    }
    more = max((len(each) for each in lacking.values()), default=0)
    if not more:
        return sample
    columns = {
        f.name: pa.array([*lacking.get(f.name, ()), *[None] * more][:more], f.type)
        for f in sample.schema
    }
    return pa.concat_tables([sample, pa.table(columns, schema=sample.schema)])
