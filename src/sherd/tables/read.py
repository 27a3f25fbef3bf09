"""Tables in, from files and databases: whole, or block by block where they are larger than memory.

What a source is, its suffix or its address says.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sherd.errors import FormatError, StorageError, UsageError
from sherd.tables.conform import check_names, conform
from sherd.tables.csvfile import Progress, csv_batches, read_csv
from sherd.tables.sql import Address, is_address, read_sql, redact
from sherd.tables.textfile import COMPRESSIONS, compression

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.tables.schema import Schema

__all__ = ["read", "redact"]

_TEXT = (".csv", ".tsv", ".tab", ".txt")
_PARQUET = (".parquet", ".pq")
_ARROW = (".feather", ".arrow", ".ipc", ".arrows")


def read(
    source: str | Path,
    *,
    schema: Schema | None = None,
    query: str | None = None,
    progress: Progress | None = None,
    lenient: bool = False,
) -> pa.Table:
    """Read the table in a file or a database, as ``sherd.datasets.sources.read`` describes it."""
    if not isinstance(source, (str, os.PathLike)):
        raise UsageError(
            "the source has the wrong type",
            must="a path or an address",
            got=f"a {type(source).__name__}",
        )
    if isinstance(source, str) and is_address(source):
        address = Address.parse(source, query=query)
        declared = schema is not None
        table, shown = read_sql(address, lenient=lenient, declared=declared), address.shown
    else:
        path, shown = Path(source), redact(str(source))
        if query is not None:
            raise UsageError(
                "a query needs a database",
                must="an address such as sqlite:///people.db",
                got=shown,
            )
        check_plain(path, shown)
        kind = _kind(path, shown)
        if kind in _TEXT:
            return read_csv(path, schema, progress, lenient=lenient)
        table = _typed_file(path, kind, shown)
    if schema is None:
        check_names(table.column_names, shown=shown)
        return table
    return conform(table, schema, shown=shown, lenient=lenient)


def _suffix(path: Path) -> tuple[str, bool]:
    """The suffix that says what a file is, looking past a compression, and whether there is one."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    packed = bool(suffixes) and suffixes[-1] in COMPRESSIONS
    if packed:
        suffixes.pop()
    return (suffixes[-1] if suffixes else ""), packed


def check_plain(path: Path, shown: str) -> None:
    """Refuse what is no file, or could be read only once; a table is read more than once."""
    if path.is_dir():
        raise UsageError("the source is a folder", must="a file", got=shown)
    if shown == "-" or (path.exists() and not path.is_file()):
        raise UsageError(
            "the source is a pipe or a device",
            must="a file, which can be read more than once",
            got=shown,
            do="write the table to a file first",
        )


def _kind(path: Path, shown: str) -> str:
    """The suffix that says what a file is; only text may be compressed as a whole."""
    kind, packed = _suffix(path)
    if kind not in _TEXT and (packed or kind not in (*_PARQUET, *_ARROW)):
        raise UsageError(
            "the file's format is unknown",
            must="a name that ends in .csv, .tsv (also .gz, .zst, .bz2, .lz4), .parquet, "
            ".feather or .arrow",
            got=shown,
            do="save a sheet as CSV in UTF-8 and give that, or rename a file that is one of these",
        )
    return kind


def is_parquet(path: Path) -> bool:
    """Whether a file's name says that it is Parquet."""
    return path.suffix.lower() in _PARQUET


def is_arrow_file(path: Path) -> bool:
    """Whether a file is an Arrow file (Feather), whose blocks can be read one by one."""
    if path.suffix.lower() not in _ARROW or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(6) == b"ARROW1"


def is_text_file(path: Path) -> bool:
    """Whether a file's name says that it is CSV, compressed or not."""
    return _suffix(path)[0] in _TEXT


@contextlib.contextmanager
def reading_errors(shown: str, name: str) -> Iterator[None]:
    """Say in our words what is wrong with a file of Arrow's formats."""
    try:
        yield
    except FileNotFoundError:
        raise UsageError("the file does not exist", got=shown, do="check the path") from None
    except MemoryError:  # Arrow's own is one of its exceptions too
        raise
    except (pa.ArrowException, OSError) as error:
        # Arrow raises a plain OSError without a number for bytes that make no sense.
        if isinstance(error, OSError) and error.errno is not None:
            raise StorageError(
                "the file cannot be read", got=f"{shown}: {error.strerror}"
            ) from None
        raise FormatError(
            f"the file is damaged or is not {name}",
            must=f"a whole {name} file",
            got=shown,
            do="copy or make it again",
        ) from None


def _typed_file(path: Path, kind: str, shown: str) -> pa.Table:
    name = "Parquet" if kind in _PARQUET else "Arrow"
    with reading_errors(shown, name), path.open("rb") as file:
        if kind in _PARQUET:
            import pyarrow.parquet as pq

            return pq.ParquetFile(file).read()
        if file.read(6) == b"ARROW1":
            return pa.ipc.open_file(file).read_all()
        file.seek(0)
        return pa.ipc.open_stream(file).read_all()


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
    if path is not None:
        check_plain(path, redact(str(source)))
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
