"""A released table that stays in its file: columns are read piece by piece, whatever their length.

Parquet and Arrow files are read as they are. A file of text has no columns to pick from: its cells
are put into a temporary Arrow file once, which stays in memory while it is small.

Rows with equal keys are looked at together (``parts``). A table in memory is one part. A stored one
is read once; its rows go to a temporary file by a hash of their keys, from which one part at a time
is read back.
"""

from __future__ import annotations

import contextlib
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import FormatError
from sherd.tables.coding import arrow_array, nulls, numpy_array
from sherd.verifying.parquet_columns import BoundedParquet, opened

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

PIECE = 1 << 18
"""Rows of a piece at most."""

SPOOLED = 16 << 20
"""Bytes of a temporary file that are held in memory."""


@dataclass(frozen=True, kw_only=True)
class StoredTable:
    """The names and the length of a table, and how its columns are read."""

    column_names: list[str]
    num_rows: int
    read: Callable[[tuple[str, ...]], Iterator[pa.Table]]

    @property
    def num_columns(self) -> int:
        """How many columns there are."""
        return len(self.column_names)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.num_rows, self.num_columns


def pieces(table: pa.Table | StoredTable, *names: str) -> Iterator[pa.Table]:
    """These columns of a table, some rows at a time; labels as text."""
    if isinstance(table, StoredTable):
        parts = table.read(names)
    else:
        parts = iter([table.select(list(names))])
    for part in parts:
        for start in range(0, part.num_rows, PIECE):
            yield _as_text(part.slice(start, PIECE))


def whole(table: pa.Table | StoredTable) -> pa.Table:
    """A table in memory, for what is known to be small."""
    if isinstance(table, pa.Table):
        return table
    return pa.concat_tables(table.read(tuple(table.column_names)), promote_options="default")


def _as_text(table: pa.Table) -> pa.Table:
    columns = [
        c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in table.columns
    ]
    return pa.table(columns, names=table.column_names)


def stored_table(
    path: Path, facts: Mapping[str, Any], schema: Schema, stack: contextlib.ExitStack
) -> StoredTable:
    """The table in a bundle's file; what it needs besides ends with the stack.

    Raises UsageError where a file of text does not have the schema's cells.
    """
    form = path.name.partition(".")[2]
    if form == "parquet":
        return _of_parquet(path)
    if form.startswith("csv"):
        return _of_text(path, schema, stack, escaped=facts.get("spreadsheet_safe") is True)
    return _of_arrow(path)


def _of_parquet(path: Path) -> StoredTable:
    from sherd.tables.read import reading_errors

    bounded = BoundedParquet(path=path)

    def read(names: tuple[str, ...]) -> Iterator[pa.Table]:
        with reading_errors(str(path), "Parquet"), opened(path) as file:
            for group in range(file.num_row_groups):
                yield from bounded.batches(file, names, group, PIECE)
            if not file.metadata.num_rows:
                yield file.schema_arrow.empty_table().select(list(names))

    with reading_errors(str(path), "Parquet"), opened(path) as file:
        names, rows = file.schema_arrow.names, file.metadata.num_rows
    return StoredTable(column_names=list(names), num_rows=rows, read=read)


@contextlib.contextmanager
def arrow_batches(
    source: Path | IO[bytes], columns: list[int] | None = None
) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    """The schema of an Arrow file or stream and its batches, one by one.

    A file is mapped, so that what is not compressed takes no memory of its own.
    """
    options = pa.ipc.IpcReadOptions(included_fields=columns, use_threads=False)
    with contextlib.ExitStack() as stack:
        file: Any = source
        if isinstance(source, Path):
            file = stack.enter_context(pa.memory_map(str(source)))
        file.seek(0)
        start = file.read(6)
        file.seek(0)
        if start == b"ARROW1":
            reader = pa.ipc.open_file(file, options=options)
            yield reader.schema, map(reader.get_batch, range(reader.num_record_batches))
        else:
            stream = pa.ipc.open_stream(file, options=options)
            yield stream.schema, iter(stream)


def _of_arrow(source: Path | IO[bytes]) -> StoredTable:
    from sherd.tables.read import reading_errors

    shown = str(getattr(source, "name", source))

    def read(wanted: tuple[str, ...]) -> Iterator[pa.Table]:
        places = [names.index(name) for name in wanted]
        with reading_errors(shown, "Arrow"), arrow_batches(source, places) as (kept, batches):
            yield kept.empty_table().select(list(wanted))
            for batch in batches:
                yield pa.Table.from_batches([batch]).select(list(wanted))

    with reading_errors(shown, "Arrow"), arrow_batches(source) as (head, _):
        names = list(head.names)
    with reading_errors(shown, "Arrow"), arrow_batches(source, [0]) as (_, batches):
        rows = sum(batch.num_rows for batch in batches)
    return StoredTable(column_names=names, num_rows=rows, read=read)


def _of_text(
    path: Path, schema: Schema, stack: contextlib.ExitStack, *, escaped: bool
) -> StoredTable:
    from sherd.tables.csvfile import csv_batches
    from sherd.tables.write import escaped_schema, unescaped

    spool = tempfile.SpooledTemporaryFile(SPOOLED)  # noqa: SIM115 - the stack closes it
    stack.enter_context(spool)
    writer = None
    try:
        for batch in csv_batches(path, escaped_schema(schema) if escaped else schema):
            part = pa.Table.from_batches([batch])
            part = _as_text(unescaped(part) if escaped else part)
            if writer is None:
                writer = pa.ipc.new_file(
                    spool, part.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")
                )
            writer.write_table(part)
    finally:
        if writer is not None:
            writer.close()
    if writer is None:
        raise FormatError("the file is empty", must="a header row", got=str(path))
    return _of_arrow(spool)


CELLS = 1 << 20
"""Cells of a part at most, about."""

_ODD = np.uint64(0x9E3779B97F4A7C15)


def part_count(*tables: pa.Table | StoredTable) -> int:
    """In how many parts tables are looked at together."""
    cells = sum(t.num_rows * t.num_columns for t in tables if isinstance(t, StoredTable))
    return 1 + cells // CELLS


def parts(
    table: pa.Table | StoredTable,
    keys: Sequence[str],
    names: Sequence[str],
    count: int,
    *,
    empty: bool = False,
) -> Iterator[pa.Table]:
    """These columns in ``count`` parts; rows with equal keys are in the same one.

    Of several parts those without rows are left out, unless asked for.
    """
    wanted = list(dict.fromkeys([*keys, *names]))
    if count == 1:
        held = list(pieces(table, *wanted)) if isinstance(table, StoredTable) else [table]
        yield pa.concat_tables([part.select(wanted) for part in held], promote_options="default")
        return
    places: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    schema: pa.Schema | None = None
    with tempfile.TemporaryFile() as file:
        for piece in pieces(table, *wanted):
            schema = piece.schema if schema is None else schema
            number = _numbers(piece, keys, count)
            order = np.argsort(number, kind="stable")
            sorted_piece = piece.cast(schema).take(arrow_array(order)).combine_chunks()
            cuts = np.searchsorted(number[order], np.arange(count + 1)).tolist()
            for part in range(count):
                rows = sorted_piece.slice(cuts[part], cuts[part + 1] - cuts[part])
                for batch in rows.to_batches():
                    block = batch.serialize()
                    places[part].append((file.tell(), block.size))
                    file.write(block)
        assert schema is not None, "a table that fills several parts has rows"
        for held in (blocks for blocks in places if blocks or empty):
            batches = []
            for start, size in held:
                file.seek(start)
                batches.append(pa.ipc.read_record_batch(pa.py_buffer(file.read(size)), schema))
            yield pa.Table.from_batches(batches, schema)


def _numbers(piece: pa.Table, keys: Sequence[str], count: int) -> NDArray[np.int64]:
    """The part of every row, by its keys alone."""
    words = np.zeros(piece.num_rows, np.uint64)
    for key in keys:
        words = (words ^ _hashes(piece.column(key).combine_chunks())) * _ODD
    mixed = (words ^ (words >> np.uint64(31))) * _ODD
    numbers: NDArray[np.int64] = ((mixed >> np.uint64(33)) % np.uint64(count)).astype(np.int64)
    return numbers


def _hashes(column: pa.Array) -> NDArray[np.uint64]:
    """A number for every cell, the same for equal cells of any piece."""
    if pa.types.is_integer(column.type):
        whole: NDArray[np.uint64] = numpy_array(column).astype(np.uint64)
        return np.where(nulls(column), _ODD, whole) if column.null_count else whole
    encoded = column.dictionary_encode(null_encoding="encode")
    values = [zlib.crc32(repr(value).encode()) for value in encoded.dictionary.to_pylist()]
    hashed: NDArray[np.uint64] = np.array(values, np.uint64)[np.asarray(encoded.indices)]
    return hashed


def distinct(table: pa.Table | StoredTable, name: str) -> pa.ChunkedArray:
    """Every value of a column once, nulls left out."""
    if isinstance(table, pa.Table):
        return table.column(name)
    values: pa.Array | None = None
    for piece in pieces(table, name):
        column = piece.column(name).unique().drop_null()
        values = column if values is None else pa.concat_arrays([values, column.cast(values.type)])
        values = values.unique()
    return pa.chunked_array([pa.array([], pa.null()) if values is None else values])
