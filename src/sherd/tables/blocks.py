"""Tables in, a block at a time: for tables that are larger than memory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sherd.tables.address import is_address
from sherd.tables.conform import conform
from sherd.tables.csvfile import csv_batches
from sherd.tables.read import is_parquet, is_text_file, read, reading_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.tables.schema import Schema

BLOCK_ROWS = 1 << 20
_SMALL = 64 << 20
"""Files up to this length are not looked into: whatever they hold fits into memory."""

_TEXT_CELL = 16
"""What a cell of text is taken to need where nothing says it."""


@dataclass(frozen=True, kw_only=True)
class Extent:
    """How large a table is in memory: rows, and bytes a row of each column."""

    rows: int | None
    column_bytes: tuple[int, ...] = ()


def extent(source: str | Path) -> Extent:
    """The size of a file's table, as far as its length and its metadata tell; no row is read.

    Nothing is known of what is no plain file: reading it says what is wrong with it.
    """
    if isinstance(source, str) and (is_address(source) or source.startswith(":")):
        return Extent(rows=None)
    path = Path(source)
    if not path.is_file():
        return Extent(rows=None)
    size = path.stat().st_size
    if is_parquet(path) and size > _SMALL:
        import pyarrow.parquet as pq

        try:
            data = pq.ParquetFile(path)
        except (pa.ArrowException, OSError):
            return Extent(rows=None)
        widths = tuple(_width(field.type) for field in data.schema_arrow)
        return Extent(rows=data.metadata.num_rows, column_bytes=widths)
    # A cell of text is about as long as the 8 bytes that hold it.
    return Extent(rows=1, column_bytes=(size,))


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, int(kind.bit_width) // 8)
    except ValueError:
        return _TEXT_CELL


def read_blocks(
    source: str | Path, schema: Schema, *, query: str | None = None, rows: int = BLOCK_ROWS
) -> Iterator[pa.Table]:
    """The table in a file, block by block, every block in the schema's types.

    Parquet and CSV are streamed; whatever else there is comes as one block.
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
    else:
        yield read(source, schema=schema, query=query)
