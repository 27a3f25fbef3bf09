"""Where a CSV file is wrong, without saying what stands there.

Called only after reading has failed; reads the file once or twice more. A row's number
counts from 1 below the header and leaves empty lines out.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv as pacsv

from sherd.errors import FormatError, SherdError, TableError
from sherd.tables.conform import kind_in_words
from sherd.tables.csvfile import parsing
from sherd.tables.textfile import not_utf8, open_text

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.tables.csvfile import CsvLayout
    from sherd.tables.schema import Schema

_ARROW = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError)


def explain(
    path: Path, seen: CsvLayout, convert: pacsv.ConvertOptions, schema: Schema | None
) -> SherdError:
    """The error that says what is wrong with a file that could not be read."""
    offset = _not_utf8(path)
    if offset is not None:
        return not_utf8(path, offset)
    ragged = _ragged(path, seen)
    if ragged is not None:
        return ragged
    for name in seen.names:
        kind, row = convert.column_types.get(name, pa.string()), None
        with contextlib.suppress(*_ARROW):
            row = _unparsable(path, seen, convert, name, kind)
        if row is not None:
            attribute = None if schema is None else schema[name]
            return TableError(
                f"the column '{name}' has a cell that cannot be read in row {row}",
                must="empty, or " + ("text" if attribute is None else kind_in_words(attribute)),
                got=str(path),
                do="correct the cell, list its text under missing_values, "
                "or change the attribute's type",
            )
    return FormatError(
        "the file cannot be read as CSV",
        must="rows of cells, none longer than a few megabytes",
        got=str(path),
        do="open it in a spreadsheet and save it again",
    )


def _not_utf8(path: Path) -> int | None:
    """The offset of the first byte that is not UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    offset = 0
    stream, _ = open_text(path)
    with stream:
        while block := stream.read(1 << 20):
            pending = len(decoder.getstate()[0])
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                return offset - pending + error.start
            offset += len(block)
    return offset if decoder.getstate()[0] else None


def _ragged(path: Path, seen: CsvLayout) -> SherdError | None:
    """The error for the first row with too many or too few cells."""
    found: list[tuple[int | None, int, int]] = []

    def note(row: pacsv.InvalidRow) -> str:
        found.append((row.number, row.expected_columns, row.actual_columns))
        return "error"

    parse = parsing(seen)
    parse.invalid_row_handler = note
    stream, _ = open_text(path)
    try:
        with (
            stream,
            pacsv.open_csv(
                pa.PythonFile(stream, "r"),
                # Rows are numbered only where they are parsed one after the other.
                read_options=pacsv.ReadOptions(use_threads=False, block_size=1 << 20),
                parse_options=parse,
                convert_options=_as_text(seen.names),
            ) as reader,
        ):
            for _ in reader:
                pass
    except _ARROW:
        if found:
            number, expected, actual = found[0]
            where = "a row" if number is None else f"row {number - 1}"
            return FormatError(
                f"{where} of the file has {actual} cell(s)",
                must=f"{expected}, as many as the header",
                got=str(path),
                do="put cells that contain the delimiter into double quotes",
            )
    return None


def _as_text(names: tuple[str, ...]) -> pacsv.ConvertOptions:
    return pacsv.ConvertOptions(
        column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=False
    )


def _unparsable(
    path: Path, seen: CsvLayout, convert: pacsv.ConvertOptions, name: str, kind: pa.DataType
) -> int | None:
    """The number of the first row whose cell in a column is not of its type."""
    if pa.types.is_string(kind) or pa.types.is_dictionary(kind):
        return None
    as_text = _as_text(seen.names)
    as_text.include_columns = [name]
    done = 0
    stream, _ = open_text(path)
    with (
        stream,
        pacsv.open_csv(
            pa.PythonFile(stream, "r"), parse_options=parsing(seen), convert_options=as_text
        ) as reader,
    ):
        for batch in reader:
            cells = batch.column(0).to_pylist()
            if _fails(cells, convert, kind):
                low, high = 0, len(cells)
                while high - low > 1:
                    middle = (low + high) // 2
                    if _fails(cells[low:middle], convert, kind):
                        high = middle
                    else:
                        low = middle
                return done + low + 1
            done += len(cells)
    return None


def _fails(cells: list[str], convert: pacsv.ConvertOptions, kind: pa.DataType) -> bool:
    """Whether Arrow's own parser refuses one of the cells."""
    text = io.StringIO()
    csv.writer(text, quoting=csv.QUOTE_ALL).writerows([["cell"], *([cell] for cell in cells)])
    try:
        pacsv.read_csv(
            io.BytesIO(text.getvalue().encode()),
            parse_options=pacsv.ParseOptions(newlines_in_values=True),
            convert_options=pacsv.ConvertOptions(
                column_types={"cell": kind},
                null_values=convert.null_values,
                strings_can_be_null=True,
                quoted_strings_can_be_null=True,
            ),
        )
    except _ARROW:
        return True
    return False
