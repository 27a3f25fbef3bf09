"""Cells of a CSV file as the texts that they are, before anybody takes them for values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from sherd.tables.csvfile import parsing
from sherd.tables.textfile import open_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sherd.tables.csvfile import CsvLayout


def text_batches(path: Path, seen: CsvLayout, names: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a file, every cell as the text that it is."""
    as_text = pacsv.ConvertOptions(
        column_types=dict.fromkeys(seen.names, pa.string()),
        strings_can_be_null=False,
        include_columns=list(names),
    )
    stream, _ = open_text(path)
    with (
        stream,
        pacsv.open_csv(
            pa.PythonFile(stream, "r"), parse_options=parsing(seen), convert_options=as_text
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
