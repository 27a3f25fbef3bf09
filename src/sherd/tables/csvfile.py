"""CSV files into Arrow tables, a block at a time, so that no second copy is ever held.

The header is looked at first: it gives the delimiter, the names, and with the first rows
the time zone of times. With a schema every column is parsed straight into its type by a
streaming reader; labels become dictionaries, which take 4 bytes a cell whatever the
length of the text (plain text takes 4 bytes and the text). Without a schema Arrow infers
the types, which needs the whole file at once.

Arrow's own messages quote rows, so none is passed on: ``csvfault`` reads the file again
to say where it is wrong without saying what stands there.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv

from sherd.errors import FormatError, TableError
from sherd.tables.attribute import Role, Type
from sherd.tables.canonical_form import LABELS, canonical_cells, cell_type, is_text
from sherd.tables.conform import check_columns, check_names
from sherd.tables.local_forms import is_local, plain_forms
from sherd.tables.textfile import Checked, damaged, not_utf8, open_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from sherd.tables.schema import Attribute, Schema

Progress = Callable[[str, int, int], None]
_PEEK = 1 << 20
_BLOCK = 1 << 20
_TIME = re.compile(r"\d\d:\d\d(?::\d\d)?(?P<fraction>\.\d+)?\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?$")


class _CellError(Exception):
    """Arrow's parser cannot read a cell; it may be wrong, or say its value in another way."""


@dataclass(frozen=True, kw_only=True)
class CsvLayout:
    """What the beginning of a CSV file tells: its names, its delimiter, its first rows."""

    names: tuple[str, ...]
    delimiter: str
    rows: tuple[tuple[str, ...], ...]

    def cells(self, place: int) -> Iterator[str]:
        """The cells of a column in the first rows."""
        return (row[place] for row in self.rows if place < len(row))

    @property
    def doubtful(self) -> bool:
        """Whether the header could be a row of data."""
        return any(is_number(name) for name in self.names)


def is_number(text: str) -> bool:
    """Whether a text reads as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def layout(path: Path) -> CsvLayout:
    """Look at the beginning of a file."""
    stream, _ = open_text(path)
    try:
        with stream:
            head = stream.read(_PEEK)
    except FormatError:
        raise
    except OSError:
        raise damaged(path) from None
    if not head.strip():
        raise FormatError("the file is empty", must="a header row and rows below it", got=str(path))
    try:
        text = head.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start < len(head) - 4:  # else: the peek cut a character in two
            raise not_utf8(path, error.start) from None
        text = head[: error.start].decode("utf-8-sig")
    first = re.split(r"[\r\n]", text.lstrip("\r\n"), maxsplit=1)[0]
    delimiter = _delimiter(path, first)
    rows: list[tuple[str, ...]] = []
    with contextlib.suppress(csv.Error):  # a cell beyond its limit: the rows before it will do
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        rows.extend(tuple(row) for row in lines if row)
    if not rows:
        raise FormatError("the file has no header row", got=str(path))
    whole = len(head) < _PEEK
    return CsvLayout(
        names=rows[0], delimiter=delimiter, rows=tuple(rows[1 : None if whole else -1])
    )


def _delimiter(path: Path, first: str) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if ".tsv" in suffixes or ".tab" in suffixes:
        return "\t"
    fields = {
        sign: len(next(csv.reader([first[:100_000]], delimiter=sign))) for sign in (",", ";", "\t")
    }
    if fields[","] > 1:
        return ","
    return max(fields, key=lambda sign: fields[sign])


def read_csv(
    path: Path, schema: Schema | None, progress: Progress | None, *, lenient: bool = False
) -> pa.Table:
    """The table in a CSV file, compressed or not; with ``lenient`` all cells as text."""
    from sherd.tables.csvfault import with_zeros

    if schema is not None:
        batches = list(csv_batches(path, schema, progress, lenient=lenient))
        return _one_dictionary(batches, batches[0].schema)
    seen = _checked_layout(path, None)
    with _explained(path, seen, None) as (stream, convert, _):
        table = _inferred(stream, seen, convert)
    _check_end(path, table, stream.tail)
    whole = [f.name for f in table.schema if pa.types.is_integer(f.type)]
    codes = dict.fromkeys(with_zeros(path, seen, whole), pa.string())
    if not codes:
        return table
    with _explained(path, seen, None) as (stream, convert, _):
        convert.column_types = codes
        return _inferred(stream, seen, convert)


def csv_batches(
    path: Path, schema: Schema, progress: Progress | None = None, *, lenient: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a CSV file block by block, each column in its schema's type.

    Arrow's own parser is the fast way. Where it meets a cell that it cannot read, such as a
    decimal comma or ``NaN`` among whole numbers, the rest is read as text and then understood
    cell by cell: no record decides on what others mean.
    """
    seen = _checked_layout(path, schema)
    given = 0
    try:
        for batch in _batches(path, seen, schema, progress, lenient=lenient):
            yield batch
            given += 1
    except _CellError:
        for number, batch in enumerate(
            _batches(path, seen, schema, progress, lenient=lenient, by_cell=True)
        ):
            if number >= given:  # blocks are cut by bytes, whatever is made of them
                yield batch


def _batches(
    path: Path,
    seen: CsvLayout,
    schema: Schema,
    progress: Progress | None,
    *,
    lenient: bool,
    by_cell: bool = False,
) -> Iterator[pa.RecordBatch]:
    total = path.stat().st_size
    last = None
    with (
        _explained(path, seen, schema, as_text=lenient, by_cell=by_cell) as (stream, convert, raw),
        pacsv.open_csv(
            pa.PythonFile(stream, "r"),
            read_options=pacsv.ReadOptions(block_size=_BLOCK),
            parse_options=parsing(seen),
            convert_options=convert,
        ) as reader,
    ):
        _ = reader.schema.names  # raises here where one is no text, and not wherever it is used
        for batch in reader:
            last = batch
            _tell(progress, raw, total)
            yield _plainly(batch, seen, schema, lenient=lenient)
        if last is None:
            yield pa.RecordBatch.from_arrays(
                [pa.array([], kind) for kind in reader.schema.types], schema=reader.schema
            )
    if last is not None:
        _check_end(path, last, stream.tail)


def _checked_layout(path: Path, schema: Schema | None) -> CsvLayout:
    """The layout of a file whose header can be used."""
    seen = layout(path)
    speak = not seen.doubtful
    if schema is not None:
        speak = any(name in schema.attributes for name in seen.names)
    check_names(seen.names, shown=str(path), speak=speak)
    if schema is not None:
        check_columns(seen.names, schema, shown=str(path))
    elif all(is_number(name) for name in seen.names):
        raise TableError(
            "the file has no header row",
            must="a first row with the columns' names",
            got=f"{path}, whose first row holds numbers only",
            do="add a header row",
        )
    return seen


@contextlib.contextmanager
def _explained(
    path: Path,
    seen: CsvLayout,
    schema: Schema | None,
    *,
    as_text: bool = False,
    by_cell: bool = False,
) -> Iterator[tuple[Checked, pacsv.ConvertOptions, IO[bytes]]]:
    """Open a file for Arrow's reader, and say in our words what the reader finds wrong."""
    from sherd.tables.csvfault import explain

    convert = options(seen, schema, as_text=as_text, by_cell=by_cell)
    stream, raw = open_text(path)
    try:
        with stream:
            yield stream, convert, raw
    except FormatError:
        raise
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowKeyError,
        TableError,
        UnicodeDecodeError,  # of a column's name: Arrow looks at cells only
    ):
        if schema is not None and not as_text and not by_cell:
            raise _CellError from None
        raise explain(path, seen, schema) from None
    except OSError:
        raise damaged(path) from None


def _check_end(path: Path, rows: pa.Table | pa.RecordBatch, tail: bytes) -> None:
    if _open_quote(rows, tail):
        raise FormatError(
            "the file ends inside a quoted cell",
            must="rows of cells, with text in double quotes where it holds a delimiter",
            got=str(path),
            do="look for a quote that is never closed",
        )


def _open_quote(table: pa.Table | pa.RecordBatch, tail: bytes) -> bool:
    """Whether the last cell runs into the end of the file, which Arrow lets pass.

    Such a cell ends with the file's last line end. One that was closed can only do so
    where the closing quote stands alone on the last line.
    """
    if not table.num_rows or not is_text(table.columns[-1].type):
        return False
    cell = table.columns[-1][-1].as_py()
    runs_on = cell is not None and cell.endswith(("\n", "\r"))
    return runs_on and re.search(rb'[\r\n]"\s*$', tail) is None


def _tell(progress: Progress | None, raw: IO[bytes], total: int) -> None:
    if progress is not None:
        progress("reading", total if raw.closed else min(raw.tell(), total), total)


def _plainly(
    batch: pa.RecordBatch, seen: CsvLayout, schema: Schema, *, lenient: bool
) -> pa.RecordBatch:
    """The batch with texts of measured values read as values (``local_forms``)."""
    columns = list(batch.columns)
    for place, column in enumerate(columns):
        attribute = schema[batch.schema.names[place]]
        hidden = attribute.role is Role.IDENTIFIER or attribute.type is Type.TEXT
        if not hidden and pa.types.is_string(column.type):
            texts = plain_forms(column, attribute.type, sure=_sure(seen))
            columns[place] = texts
            if not lenient:
                cells = typed(texts, attribute, schema.missing_values)
                cells = cells.cast(_parsed_as(seen, place, attribute))
                columns[place] = pa.concat_arrays(cells.chunks)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def typed(texts: pa.Array, attribute: Attribute, missing_values: Sequence[str]) -> pa.ChunkedArray:
    """Texts as the measured values they stand for; raises TableError if one stands for none."""
    return canonical_cells(pa.chunked_array([texts]), attribute, missing_values)


def parsing(seen: CsvLayout) -> pacsv.ParseOptions:
    """How rows are cut into cells."""
    return pacsv.ParseOptions(delimiter=seen.delimiter, newlines_in_values=True)


def options(
    seen: CsvLayout, schema: Schema | None, *, as_text: bool = False, by_cell: bool = False
) -> pacsv.ConvertOptions:
    """How cells become values; ``by_cell`` leaves measured ones as texts to be looked at."""
    marks = [""] if schema is None else ["", *schema.missing_values]
    types = {}
    if schema is not None:
        for place, name in enumerate(seen.names):
            attribute = schema[name]
            if attribute.role is Role.IDENTIFIER or attribute.type is Type.TEXT or as_text:
                types[name] = pa.string()
            elif attribute.type.labelled:
                types[name] = LABELS
            elif by_cell or is_local(seen.cells(place), attribute.type, sure=_sure(seen)):
                types[name] = pa.string()
            else:
                types[name] = _parsed_as(seen, place, attribute)
    return pacsv.ConvertOptions(
        column_types=types,
        null_values=marks,
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )


def _sure(seen: CsvLayout) -> bool:
    """Whether a comma in a number must be a decimal one, since it does not part cells."""
    return seen.delimiter != ","


def _parsed_as(seen: CsvLayout, place: int, attribute: Attribute) -> pa.DataType:
    """The type of a column of measured values."""
    if attribute.type is Type.DATETIME:
        return _time_type(seen, place)
    return cell_type(attribute)


def _time_type(seen: CsvLayout, place: int) -> pa.DataType:
    """The type of a column of times: their zone, where all agree on it, and their precision."""
    zones, digits = set(), 0
    for row in seen.rows:
        if place < len(row) and (time := _TIME.search(row[place].strip())):
            zones.add(time["zone"])
            digits = max(digits, len(time["fraction"] or ".") - 1)
    unit = "ns" if digits > 6 else "us"
    offsets = zones - {None}
    if not offsets:
        return pa.timestamp(unit)
    zone = next(iter(offsets)) if len(offsets) == 1 else "Z"
    if zone == "Z" or re.fullmatch(r"[+-]00(:?00)?", zone):
        return pa.timestamp(unit, "UTC")
    hours, minutes = zone[:3], zone[3:].lstrip(":") or "00"
    return pa.timestamp(unit, f"{hours}:{minutes}")


def _one_dictionary(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """A table of the batches, every label column with one dictionary for all of them.

    Column by column, and each old column let go before the next: the peak is one column
    more than the table.
    """
    table = pa.Table.from_batches(batches, schema=schema)
    batches.clear()
    columns = list(table.columns)
    del table
    for place, column in enumerate(columns):
        if pa.types.is_dictionary(column.type):
            columns[place] = column.unify_dictionaries()
        del column
    return pa.Table.from_arrays(columns, schema=schema)


def _inferred(stream: Checked, seen: CsvLayout, convert: pacsv.ConvertOptions) -> pa.Table:
    table = pacsv.read_csv(
        pa.PythonFile(stream, "r"), parse_options=parsing(seen), convert_options=convert
    )
    if any(pa.types.is_binary(column.type) for column in table.columns):
        raise pa.ArrowInvalid("a column is not UTF-8")
    return table.rename_columns(list(seen.names))
