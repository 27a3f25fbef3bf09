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
from sherd.tables.canonical_form import canonical_cells
from sherd.tables.conform import check_columns, check_names, is_text
from sherd.tables.local_forms import is_local, plain_forms
from sherd.tables.schema import Role, Type
from sherd.tables.textfile import Checked, damaged, not_utf8, open_text

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sherd.tables.schema import Attribute, Schema

Progress = Callable[[str, int, int], None]
_PEEK = 1 << 20
_BLOCK = 1 << 20
_LABELS = pa.dictionary(pa.int32(), pa.string())
_TIME = re.compile(r"\d\d:\d\d(?::\d\d)?(?P<fraction>\.\d+)?\s*(?P<zone>Z|[+-]\d\d(?::?\d\d)?)?$")


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
    if schema is not None:
        batches = list(csv_batches(path, schema, progress, lenient=lenient))
        return _one_dictionary(batches, batches[0].schema)
    seen = _checked_layout(path, None)
    with _explained(path, seen, None) as (stream, convert, _):
        table = _inferred(stream, seen, convert)
    _check_end(path, table, stream.tail)
    return table


def csv_batches(
    path: Path, schema: Schema, progress: Progress | None = None, *, lenient: bool = False
) -> Iterator[pa.RecordBatch]:
    """The rows of a CSV file block by block, each column in its schema's type."""
    seen = _checked_layout(path, schema)
    total = path.stat().st_size
    last = None
    with (
        _explained(path, seen, schema, lenient=lenient) as (stream, convert, raw),
        pacsv.open_csv(
            pa.PythonFile(stream, "r"),
            read_options=pacsv.ReadOptions(block_size=_BLOCK),
            parse_options=parsing(seen),
            convert_options=convert,
        ) as reader,
    ):
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
    path: Path, seen: CsvLayout, schema: Schema | None, *, lenient: bool = False
) -> Iterator[tuple[Checked, pacsv.ConvertOptions, IO[bytes]]]:
    """Open a file for Arrow's reader, and say in our words what the reader finds wrong."""
    from sherd.tables.csvfault import explain

    convert = options(seen, schema, as_text=lenient)
    stream, raw = open_text(path)
    try:
        with stream:
            yield stream, convert, raw
    except FormatError:
        raise
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError):
        raise explain(path, seen, convert, schema) from None
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
    """The batch with values in local forms (``local_forms``) as those that they are."""
    sure = seen.delimiter != ","
    columns = list(batch.columns)
    for place, column in enumerate(columns):
        attribute = schema[batch.schema.names[place]]
        hidden = attribute.role is Role.IDENTIFIER
        if hidden or not attribute.type.measured or not pa.types.is_string(column.type):
            continue
        texts = plain_forms(column, attribute.type, sure=sure)
        columns[place] = texts if lenient else _typed(texts, attribute, schema)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _typed(texts: pa.Array, attribute: Attribute, schema: Schema) -> pa.Array:
    whole = canonical_cells(pa.chunked_array([texts]), attribute, schema.missing_values)
    made = whole.combine_chunks()
    return made if isinstance(made, pa.Array) else pa.concat_arrays(made.chunks)


def parsing(seen: CsvLayout) -> pacsv.ParseOptions:
    """How rows are cut into cells."""
    return pacsv.ParseOptions(delimiter=seen.delimiter, newlines_in_values=True)


def options(
    seen: CsvLayout, schema: Schema | None, *, as_text: bool = False
) -> pacsv.ConvertOptions:
    """How cells become values."""
    marks = [""] if schema is None else ["", *schema.missing_values]
    types = {}
    if schema is not None:
        for place, name in enumerate(seen.names):
            attribute = schema[name]
            if attribute.role is Role.IDENTIFIER or attribute.type is Type.TEXT or as_text:
                types[name] = pa.string()
            elif attribute.type.labelled:
                types[name] = _LABELS
            elif is_local(seen.cells(place), attribute.type, sure=seen.delimiter != ","):
                types[name] = pa.string()
            elif attribute.type is Type.DATETIME:
                types[name] = _time_type(seen, place)
            else:
                types[name] = _TYPES[attribute.type]
    return pacsv.ConvertOptions(
        column_types=types,
        null_values=marks,
        strings_can_be_null=True,
        quoted_strings_can_be_null=True,
    )


_TYPES = {
    Type.INTEGER: pa.int64(),
    Type.NUMBER: pa.float64(),
    Type.DATE: pa.date32(),
    Type.BOOLEAN: pa.bool_(),
}


def _time_type(seen: CsvLayout, place: int) -> pa.DataType:
    """The type of a column of times: their zone, where all agree on it, and their precision."""
    zones, digits = set(), 0
    for row in seen.rows:
        if place < len(row) and (found := _TIME.search(row[place].strip())):
            zones.add(found["zone"])
            digits = max(digits, len(found["fraction"] or ".") - 1)
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
