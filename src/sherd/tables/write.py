"""Tables out: CSV, Parquet or Arrow by suffix, the same bytes for the same table.

Numbers are written so that reading them gives the same number; whole numbers, decimals
and dates keep their form; times keep their zone; labels are written as labels. CSV cells
are quoted only where they must be; a missing cell is empty and an empty text is ``""``.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from sherd.errors import StorageError, TableError, UsageError
from sherd.tables.conform import check_names, is_text, plain
from sherd.tables.spreadsheet import escaped
from sherd.tables.streamed_table import StreamedTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ROWS = 1 << 16
MOST_GROUP_ROWS, MOST_GROUP_CELLS = 1 << 20, 1 << 23
_QUOTED = r"[\",\r\n]|^\s|\s$|^$"


def group_rows(columns: int) -> int:
    """The rows of a row group of Parquet, so that one is never large, whatever the columns.

    >>> group_rows(3), group_rows(16)
    (1048576, 524288)
    """
    return min(MOST_GROUP_ROWS, max(1, MOST_GROUP_CELLS // max(1, columns)))


def _plainly(path: Path) -> IO[bytes]:
    return path.open("wb")


def write(
    table: pa.Table | StreamedTable,
    path: Path,
    *,
    spreadsheet_safe: bool = False,
    opened: Callable[[Path], IO[bytes]] = _plainly,
    rows_at_once: int | None = None,
) -> None:
    """Write a table to exactly this path, in the format its suffix names.

    ``spreadsheet_safe`` puts an apostrophe before text that a spreadsheet would run as a
    formula; it concerns CSV only, since only there a cell's type is guessed. ``opened`` makes
    the file, where it is not to be a plain one; ``rows_at_once`` are the rows of a row group of
    Parquet, where they are not to be as many as the columns ask for.
    """
    path = Path(path)
    name = path.name.lower()
    check_names(table.column_names, shown=str(path))
    try:
        if isinstance(table, StreamedTable):
            _write_parquet(table.schema, table.pieces(), path, opened)
            return
        table = pa.table(
            {column: plain(table[column], column) for column in table.column_names}
        )  # which also leaves any metadata behind
        if name.endswith((".csv", ".csv.gz", ".csv.zst")):
            with opened(path) as file:
                _write_csv(table, file, name, spreadsheet_safe=spreadsheet_safe)
        elif name.endswith((".parquet", ".pq")):
            _write_parquet(
                table.schema,
                _pieces(table, rows_at_once or group_rows(table.num_columns)),
                path,
                opened,
            )
        elif name.endswith(".arrows"):
            # A stream without compression, which a stranger can read without decompressing.
            with opened(path) as file:
                _write_arrow(table, file, pa.ipc.new_stream, compression=None)
        elif name.endswith((".feather", ".arrow", ".ipc")):
            with opened(path) as file:
                _write_arrow(table, file, pa.ipc.new_file, compression="zstd")
        else:
            raise UsageError(
                "the output's format is unknown",
                must="a name that ends in .csv, .csv.gz, .csv.zst, .parquet, .feather or .arrows",
                got=path.name,
            )
    except OSError as error:
        reason = error.strerror or "the disk failed"
        raise StorageError("the table cannot be written", got=f"{path}: {reason}") from None


def _write_parquet(
    schema: pa.Schema,
    pieces: Iterator[pa.Table],
    path: Path,
    opened: Callable[[Path], IO[bytes]],
) -> None:
    """Write pieces as row groups; without the schema of Arrow, in which types could hide."""
    import pyarrow.parquet as pq

    with (
        opened(path) as file,
        pq.ParquetWriter(file, schema, compression="zstd", store_schema=False) as parquet,
    ):
        for piece in pieces:
            parquet.write_table(piece, row_group_size=max(piece.num_rows, 1))
            del piece  # before the next is made


def _write_arrow(
    table: pa.Table, file: IO[bytes], form: Callable[..., Any], *, compression: str | None
) -> None:
    options = pa.ipc.IpcWriteOptions(compression=compression, unify_dictionaries=True)
    with form(file, table.schema, options=options) as writer:
        for piece in _pieces(table.unify_dictionaries(), _ROWS):
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
    for block in csv_blocks(table, spreadsheet_safe=spreadsheet_safe):
        sink.write(block)
    if sink is not file:
        sink.close()


def csv_blocks(table: pa.Table, *, spreadsheet_safe: bool = False) -> Iterator[Any]:
    r"""The bytes of the table as CSV, in blocks.

    >>> b"".join(bytes(b) for b in csv_blocks(pa.table({"a": [1, None], "b": ["x,y", ""]})))
    b'a,b\n1,"x,y"\n,""\n'
    """
    header = pa.array(table.column_names, pa.string())
    yield (",".join(_escaped(header, safe=spreadsheet_safe).to_pylist()) + "\n").encode()
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
