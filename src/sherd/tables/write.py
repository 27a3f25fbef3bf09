"""Tables out: CSV, Parquet or Arrow by suffix, the same bytes for the same table.

Numbers are written so that reading them gives the same number; whole numbers, decimals
and dates keep their form; times keep their zone; labels are written as labels. CSV cells
are quoted only where they must be; a missing cell is empty and an empty text is ``""``.

``escaped`` puts an apostrophe before text that a spreadsheet would run as a formula. A text that
already has apostrophes before such a sign gets one more, so every escaped text leads back to one
text only.
"""

from __future__ import annotations

import contextlib
import gzip
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import StorageError, TableError, UsageError
from sherd.tables.canonical_form import is_text
from sherd.tables.coded_columns import FORM, coded
from sherd.tables.conform import check_names, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from sherd.tables.schema import Schema


_ROWS = 1 << 16
_GROUP = 1 << 20
_TEXT = (".csv", ".csv.gz", ".csv.zst")
_PARQUET = (".parquet", ".pq")
_STREAM = (".arrows",)
_ARROW = (".feather", ".arrow", ".ipc")
_QUOTED = r"[\",\r\n]|^\s|\s$|^$"


def _plainly(path: Path) -> IO[bytes]:
    return path.open("wb")


def write(
    table: pa.Table | StreamedTable,
    path: Path,
    *,
    spreadsheet_safe: bool = False,
    opened: Callable[[Path], IO[bytes]] = _plainly,
) -> None:
    """Write a table to exactly this path, in the format its suffix names.

    ``spreadsheet_safe`` puts an apostrophe before text that a spreadsheet would run as a
    formula; it concerns CSV only, since only there a cell's type is guessed. ``opened`` makes
    the file, where it is not to be a plain one.
    """
    path = Path(path)
    name = path.name.lower()
    check_names(table.column_names, shown=str(path))
    if not name.endswith((*_TEXT, *_PARQUET, *_STREAM, *_ARROW)):
        raise UsageError(
            "the output's format is unknown",
            must="a name that ends in .csv, .csv.gz, .csv.zst, .parquet, .feather or .arrows",
            got=path.name,
        )
    try:
        if isinstance(table, StreamedTable):
            with opened(path) as file:
                write_pieces(table.pieces(), table.schema, file, name)
            return
        table = pa.table(
            {column: plain(table[column], column) for column in table.column_names}
        )  # which also leaves any metadata behind
        if name.endswith(f".{FORM}"):
            table = coded(table)
        with opened(path) as file:
            if name.endswith(_TEXT):
                _write_csv(table, file, name, spreadsheet_safe=spreadsheet_safe)
            else:
                whole = table if name.endswith(_PARQUET) else table.unify_dictionaries()
                write_pieces(_pieces(whole, rows_of_piece(name)), table.schema, file, name)
    except OSError as error:
        reason = error.strerror or "the disk failed"
        raise StorageError("the table cannot be written", got=f"{path}: {reason}") from None


def rows_of_piece(name: str) -> int:
    """The rows of a piece (a row group, a batch) in a file of this name; the last has fewer."""
    return _GROUP if name.lower().endswith(_PARQUET) else _ROWS


def write_pieces(pieces: Iterable[pa.Table], schema: pa.Schema, file: IO[bytes], name: str) -> None:
    """Write a table that comes piece by piece as Parquet or Arrow, as the file's name says."""
    if name.lower().endswith(_PARQUET):
        import pyarrow.parquet as pq

        # Without the schema of Arrow, in which types of the original could hide.
        with pq.ParquetWriter(file, schema, compression="zstd", store_schema=False) as parquet:
            for piece in pieces:
                parquet.write_table(piece, row_group_size=_GROUP)
                del piece  # before the next is made
        return
    # A stream is not compressed: a stranger can read it without decompressing.
    stream = name.lower().endswith(_STREAM)
    compression = None if stream else "zstd"
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=True)
    make: Callable[..., Any] = pa.ipc.new_stream if stream else pa.ipc.new_file
    with make(file, schema, options=options) as writer:
        for piece in pieces:
            writer.write_table(piece)


def _pieces(table: pa.Table, rows: int) -> Iterator[pa.Table]:
    """The table in pieces of so many rows each, whatever pieces it came in."""
    for start in range(0, max(table.num_rows, 1), rows):
        yield table.slice(start, rows).combine_chunks()


def _write_csv(table: pa.Table, file: IO[bytes], name: str, *, spreadsheet_safe: bool) -> None:
    sink: Any = file
    if name.endswith(".gz"):
        sink = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0, compresslevel=6)
    elif name.endswith(".zst"):
        sink = pa.CompressedOutputStream(file, "zstd")
    try:
        for block in csv_blocks(table, spreadsheet_safe=spreadsheet_safe):
            sink.write(block)
    except BaseException:
        if sink is not file:
            # What it would still write has no place any more.
            with contextlib.suppress(OSError, ValueError):
                sink.close()
        raise
    if sink is not file:
        sink.close()


def csv_blocks(
    table: pa.Table, *, spreadsheet_safe: bool = False, header: bool = True
) -> Iterator[Any]:
    r"""The bytes of the table as CSV, in blocks; without its header where it goes on.

    >>> b"".join(bytes(b) for b in csv_blocks(pa.table({"a": [1, None], "b": ["x,y", ""]})))
    b'a,b\n1,"x,y"\n,""\n'
    """
    if header:
        names = pa.array(table.column_names, pa.string())
        yield (",".join(_escaped(names, safe=spreadsheet_safe).to_pylist()) + "\n").encode()
    # A lone empty cell would be an empty line, which readers skip.
    blank = '""' if table.num_columns == 1 else ""
    for batch in table.to_batches(max_chunksize=_ROWS):
        cells = [
            _cells(column, name, safe=spreadsheet_safe)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        rows = _joined(*cells, by=",", null_handling="replace", null_replacement=blank)
        lines = _joined(rows, "", by="\n")
        if len(lines):
            # The values of a text column lie one after the other: that is the file.
            yield lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py())


def _joined(*parts: pa.Array | str, by: str = "", **options: str) -> pa.Array:
    """Texts put together row by row."""
    large = [
        pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in parts
    ]
    return pc.binary_join_element_wise(*large, pa.scalar(by, pa.large_string()), **options)


def _cells(column: pa.Array, name: str, *, safe: bool) -> pa.Array:
    """A column as the text of its cells, large so that no block can be too large."""
    if pa.types.is_dictionary(column.type):
        text = _cells(column.dictionary, name, safe=safe)
        return pc.take(text, column.indices)
    if is_text(column.type):
        return _escaped(column, safe=safe)
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        text = pc.strftime(column, format="%Y-%m-%d %H:%M:%S%z")
        text = pc.replace_substring_regex(text, r"([+-]\d\d)(\d\d)$", r"\1:\2")
        return text.cast(pa.large_string())
    try:
        return column.cast(pa.large_string())
    except pa.ArrowNotImplementedError:
        raise TableError(
            f"the column '{name}' cannot be written as CSV",
            must="numbers, dates, true or false, or text",
            got=f"the type {column.type}",
            do="choose Parquet",
        ) from None


def _escaped(column: pa.Array, *, safe: bool) -> pa.Array:
    text = column.cast(pa.large_string())
    if safe:
        text = escaped(text)
    special = pc.match_substring_regex(text, _QUOTED)
    if not pc.any(special).as_py():
        return text
    doubled = pc.replace_substring(text, '"', '""')
    return pc.if_else(special, _joined('"', doubled, '"'), text)


_RISKY = r"^'*[=+\-@\t\r]"
_ESCAPED = r"^'('*[=+\-@\t\r])"


def escaped(text: pa.Array) -> pa.Array:
    """Texts with an apostrophe before those that a spreadsheet would run.

    >>> escaped(pa.array(["=1+0", "'=1+0", "a=1", None])).to_pylist()
    ["'=1+0", "''=1+0", 'a=1', None]
    """
    risky = pc.match_substring_regex(text, _RISKY)
    apostrophe = pa.scalar("'", text.type)
    joined = pc.binary_join_element_wise(apostrophe, text, pa.scalar("", text.type))
    return pc.if_else(risky, joined, text)


def unescaped(table: pa.Table) -> pa.Table:
    """The table that was written with its names and labels escaped.

    >>> unescaped(pa.table({"'=b": ["'=1+0", "'a"]})).to_pydict()
    {'=b': ['=1+0', "'a"]}
    """
    columns = [_unescaped(column) for column in table.columns]
    return pa.Table.from_arrays(columns, names=_plain(pa.array(table.column_names)).to_pylist())


def escaped_schema(schema: Schema) -> Schema:
    """The schema with its attributes called as the header of an escaped file calls them."""
    names = escaped(pa.array(list(schema.attributes), pa.string())).to_pylist()
    renamed = zip(names, schema.attributes.values(), strict=True)
    return replace(
        schema,
        attributes={name: replace(attribute, name=name) for name, attribute in renamed},
    )


def _plain(text: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    return pc.replace_substring_regex(text, _ESCAPED, r"\1")


def _unescaped(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
        chunks = [
            pa.DictionaryArray.from_arrays(chunk.indices, _plain(chunk.dictionary))
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, column.type)
    return _plain(column) if is_text(column.type) else column


@dataclass(frozen=True, kw_only=True)
class StreamedTable:
    """What writing a released table needs of it; ``pieces`` may be asked for more than once.

    The pieces are in released form already and of the rows of a row group of Parquet
    (``rows_of_piece``), so they are written as Parquet only.
    """

    schema: pa.Schema
    num_rows: int
    pieces: Callable[[], Iterator[pa.Table]]

    @property
    def column_names(self) -> list[str]:
        """The columns' names."""
        return list(self.schema.names)

    @property
    def num_columns(self) -> int:
        """How many columns there are."""
        return len(self.schema)
