"""Tables in, a block at a time: for tables that are larger than memory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sherd.tables.address import is_address
from sherd.tables.conform import conform
from sherd.tables.csvfile import csv_batches
from sherd.tables.read import is_arrow_file, is_parquet, is_text_file, read, reading_errors
from sherd.tables.textfile import compression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.tables.schema import Schema

BLOCK_ROWS = 1 << 20

_TEXT_CELL = 16
"""What a cell of text is taken to need where nothing says it."""

_CELL = 8
"""What a number, a time or a category's code needs in memory."""

_SHORTEST = 2
"""The fewest bytes of a cell in a text file: a character and what separates it from the next."""

_COMPRESSED = 8
"""How many times longer a compressed table is taken to be where nothing says it."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How large a table may be in memory: rows, and bytes a row of each column."""

    rows: int | None
    column_bytes: tuple[int, ...] = ()


def extent(source: str | Path, columns: int = 1) -> Extent:
    """The most that a file's table may need, by its length and its metadata; no row is read.

    A table of text (of so many columns) is taken to have the shortest cells there can be: a
    table thought too large runs a little slower on another engine, one thought too small ends
    the process. Nothing is known of what is no plain file: reading it says what is wrong.
    """
    if isinstance(source, str) and (is_address(source) or source.startswith(":")):
        return Extent(rows=None)
    path = Path(source)
    if not path.is_file():
        return Extent(rows=None)
    if is_text_file(path):
        rows = _text_length(path) // (_SHORTEST * max(1, columns))
        return Extent(rows=rows, column_bytes=(_CELL,) * columns)
    try:
        if is_parquet(path):
            import pyarrow.parquet as pq

            data = pq.ParquetFile(path)
            schema, rows = data.schema_arrow, data.metadata.num_rows
        else:
            with pa.memory_map(str(path)) as file:
                reader = pa.ipc.open_file(file)
                schema, rows = reader.schema, reader.count_rows()
    except (pa.ArrowException, OSError, AttributeError):  # a stream, damaged, or an older Arrow
        return Extent(rows=path.stat().st_size * _COMPRESSED // _CELL, column_bytes=(_CELL,))
    return Extent(rows=rows, column_bytes=tuple(_width(field.type) for field in schema))


def _text_length(path: Path) -> int:
    """The bytes of a file of text when it is unpacked, as far as that can be told.

    Gzip keeps the length of its last member in the last four bytes, modulo 4 GiB: what it says
    is taken where the file is short enough for that and has, by its length, one member.
    """
    size = path.stat().st_size
    kind = compression(path)
    if kind is None:
        return size
    usual = size * _COMPRESSED
    if kind == "gzip" and usual < 1 << 32 and size >= 18:
        with path.open("rb") as file:
            file.seek(-4, os.SEEK_END)
            length = int.from_bytes(file.read(4), "little")
        if size <= length:
            return length
    return usual


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _TEXT_CELL


def read_blocks(
    source: str | Path, schema: Schema, *, query: str | None = None, rows: int = BLOCK_ROWS
) -> Iterator[pa.Table]:
    """The table in a file, block by block, every block in the schema's types.

    Parquet, CSV and Arrow files are streamed; whatever else there is comes as one block.
    """
    path = None if isinstance(source, str) and is_address(source) else Path(source)
    if path is not None and query is None and is_parquet(path):
        import pyarrow.parquet as pq

        with reading_errors(str(path), "Parquet"):
            file = pq.ParquetFile(path, memory_map=True)
            batches = file.iter_batches(batch_size=rows, use_threads=False)
            empty = True
            for batch in batches:
                empty = False
                yield conform(pa.Table.from_batches([batch]), schema, shown=str(path))
            if empty:
                yield conform(file.schema_arrow.empty_table(), schema, shown=str(path))
    elif path is not None and query is None and is_text_file(path):
        for batch in csv_batches(path, schema):
            yield pa.Table.from_batches([batch])
    elif path is not None and query is None and is_arrow_file(path):
        with reading_errors(str(path), "Arrow"), pa.memory_map(str(path)) as source_file:
            opened = pa.ipc.open_file(source_file)
            for at in range(opened.num_record_batches):
                whole = pa.Table.from_batches([opened.get_batch(at)])
                for start in range(0, max(1, whole.num_rows), rows):
                    yield conform(whole.slice(start, rows), schema, shown=str(path))
            if not opened.num_record_batches:
                yield conform(opened.schema.empty_table(), schema, shown=str(path))
    else:
        yield read(source, schema=schema, query=query)
