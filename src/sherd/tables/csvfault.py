"""Where a CSV file is wrong, without saying what stands there.

Called only after reading has failed; reads the file once or twice more. A row's number
counts from 1 below the header and leaves empty lines out. ``text_batches`` gives cells as the
texts that they are, before they are taken for values.
"""

from __future__ import annotations

import codecs
import contextlib
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from sherd.errors import FormatError, SherdError, TableError
from sherd.tables.attribute import Role, Type
from sherd.tables.conform import kind_in_words
from sherd.tables.csvfile import parsing, typed
from sherd.tables.local_forms import plain_forms
from sherd.tables.textfile import not_utf8, open_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from sherd.tables.csvfile import CsvLayout
    from sherd.tables.schema import Attribute, Schema


_ARROW = (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowKeyError)


def explain(path: Path, seen: CsvLayout, schema: Schema | None) -> SherdError:
    """The error that says what is wrong with a file that could not be read."""
    offset = _not_utf8(path)
    if offset is not None:
        return not_utf8(path, offset)
    ragged = _ragged(path, seen)
    if ragged is not None:
        return ragged
    marks = () if schema is None else schema.missing_values
    for attribute in () if schema is None else schema:
        if attribute.role is Role.IDENTIFIER or not (
            attribute.type.measured or attribute.type is Type.BOOLEAN
        ):
            continue
        row = None
        with contextlib.suppress(*_ARROW):
            row = _unreadable(path, seen, attribute, marks)
        if row is not None:
            return TableError(
                f"the column '{attribute.name}' has a cell that cannot be read in row {row}",
                must="empty, or " + kind_in_words(attribute),
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
    rows: list[tuple[int | None, int, int]] = []

    def note(row: pacsv.InvalidRow) -> str:
        rows.append((row.number, row.expected_columns, row.actual_columns))
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
                convert_options=_as_text(seen, seen.names),
            ) as reader,
        ):
            for _ in reader:
                pass
    except _ARROW:
        if rows:
            number, expected, actual = rows[0]
            where = "a row" if number is None else f"row {number - 1}"
            return FormatError(
                f"{where} of the file has {actual} cell(s)",
                must=f"{expected}, as many as the header",
                got=str(path),
                do="put cells that contain the delimiter into double quotes"
                if actual > expected
                else "write a delimiter for every cell, also where it is empty",
            )
    return None


def _as_text(seen: CsvLayout, names: Iterable[str]) -> pacsv.ConvertOptions:
    return pacsv.ConvertOptions(
        column_types=dict.fromkeys(seen.names, pa.string()),
        strings_can_be_null=False,
        include_columns=list(names),
    )


def _unreadable(
    path: Path, seen: CsvLayout, attribute: Attribute, missing_values: Sequence[str]
) -> int | None:
    """The number of the first row whose cell in a column is not of its type."""

    def fails(cells: pa.Array) -> bool:
        texts = plain_forms(cells, attribute.type, sure=seen.delimiter != ",")
        try:
            typed(texts, attribute, missing_values)
        except TableError:
            return True
        return False

    done = 0
    for batch in text_batches(path, seen, [attribute.name]):
        cells = batch.column(0)
        if fails(cells):
            low, high = 0, len(cells)
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if fails(cells[low:middle]) else (middle, high)
            return done + low + 1
        done += len(cells)
    return None


def text_batches(path: Path, seen: CsvLayout, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a file, every cell as the text that it is."""
    stream, _ = open_text(path)
    with (
        stream,
        pacsv.open_csv(
            pa.PythonFile(stream, "r"),
            parse_options=parsing(seen),
            convert_options=_as_text(seen, names),
        ) as reader,
    ):
        yield from reader


def with_zeros(path: Path, seen: CsvLayout, names: list[str]) -> list[str]:
    """Those columns of whole numbers that are codes: as numbers they would lose their zeros."""
    codes: set[str] = set()
    for batch in text_batches(path, seen, names) if names else ():
        for name in names:
            zeros = pc.match_substring_regex(batch.column(name), r"^\s*[+-]?0\d")
            if name not in codes and pc.any(zeros).as_py():
                codes.add(name)
    return [name for name in names if name in codes]
