"""Checks of a bundle's files for what they say besides their cells.

A file of a release has the schema's types and holds cells: no metadata, no dictionary but the
one that its own cells make, nothing in the memory of a missing cell. Releases made before this
was so can give the original away; they are told by it.
"""

from __future__ import annotations

import errno
import itertools
from typing import TYPE_CHECKING, Any

from sherd.tables.coded_columns import FORM as CODED
from sherd.tables.coded_columns import holds_numbers, is_coded
from sherd.tables.schema import Schema
from sherd.verifying.check import UNREADABLE, Check
from sherd.verifying.parquet_columns import ROWS_AT_ONCE, BoundedParquet, opened
from sherd.verifying.stored_table import arrow_batches
from sherd.verifying.written_again import BYTES, LONG, oddity

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    import pyarrow as pa

NAME = "form of the files"

EARLIER = (
    "it holds more than cells, as files of earlier versions do: dictionaries or types of the "
    "original, from which pairs and left-out people can be read; withdraw it and make the release "
    "again (see the security notes)"
)
"""What is said of a file whose form is not the one that releases have."""


def check_form(folder: Path, manifest: Mapping[str, Any]) -> Check:
    """Whether every file holds cells in the schema's types and nothing else."""
    try:
        return _checked(folder, manifest)
    except (*UNREADABLE, OSError) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            return Check.unmade(NAME, "the disk has no room for temporary files")
        return Check.failed(NAME, "a file cannot be read")


def _checked(folder: Path, manifest: Mapping[str, Any]) -> Check:
    kinds = _kinds(manifest)
    for name in manifest["files"]:
        form = name.partition(".")[2]
        if form == "json":
            continue  # each of its fields is checked
        wrong = None
        if form == "parquet":
            wrong = _wrong_in_parquet(folder / name, kinds)
        elif not form.startswith("csv"):
            wrong = _wrong_in_arrow(folder / name, kinds)
        if wrong is None:
            wrong = oddity(folder / name, kinds)
            if wrong is LONG:
                return Check.unmade(NAME, f"{name}: {LONG}")
            if wrong is BYTES and not form.startswith("csv") and not _same_library(manifest):
                detail = f"{name}: only the version of pyarrow that wrote it can compare every byte"
                return Check.unmade(NAME, detail)
        if wrong is not None:
            return Check.failed(NAME, f"{name}: {wrong}")
    return Check(name=NAME, passed=True, detail="cells in the schema's types, and nothing else")


def _same_library(manifest: Mapping[str, Any]) -> bool:
    """Whether the files were written by the version of pyarrow at hand, as far as is stated."""
    import pyarrow as pa

    return bool(manifest["versions"].get("pyarrow") == pa.__version__)


def _kinds(manifest: Mapping[str, Any]) -> dict[str, str]:
    """The type of each attribute's cells, as the schema declares it."""
    names = {
        "integer": "int64",
        "number": "double",
        "date": "date32[day]",
        "datetime": "timestamp[us]",
        "boolean": "bool",
    }
    schema = Schema.from_data({"attributes": manifest["schema"]["attributes"]})
    return {attribute.name: names.get(attribute.type.value, "string") for attribute in schema}


def _wrong_type(schema: pa.Schema, kinds: Mapping[str, str], *, coded: bool = False) -> str | None:
    """What is wrong about the types and metadata of a file, or None."""
    if schema.metadata or any(field.metadata for field in schema):
        return EARLIER
    for field in schema:
        kind = str(field.type)
        # Groups of values are labels, whatever type the values had.
        known = {"string", kinds[field.name]} if field.name in kinds else _ANY
        if coded and holds_numbers(field.type):
            kind = str(field.type.value_type)
        if kind.startswith("dictionary"):
            return EARLIER
        if kind not in known:
            return f"the column '{field.name}' is of the type {kind}, which its schema does not say"
    return None


_ANY = {"int64", "double", "date32[day]", "timestamp[us]", "bool", "string"}


def _wrong_in_parquet(path: Path, kinds: Mapping[str, str]) -> str | None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        if file.metadata.metadata:
            return EARLIER
        if not _is_filled(file.metadata, path.stat().st_size):
            return "it holds bytes that belong to no cell"
        # Parquet numbers its fields, which Arrow tells as metadata of its own.
        bare = [field.remove_metadata() for field in file.schema_arrow]
        wrong = _wrong_type(pa.schema(bare), kinds)
    if wrong is not None:
        return wrong
    texts = [field.name for field in bare if str(field.type) == "string"]
    bounded = BoundedParquet(path=path)
    with opened(path, read_dictionary=texts) as file:
        for group, name in itertools.product(range(file.num_row_groups), texts):
            if not _of_its_cells(bounded, file, name, group):
                return f"the dictionary of '{name}' is not the one that its cells make"
    return None


def _is_filled(metadata: Any, size: int) -> bool:
    """Whether magic, columns and footer are the whole file, one behind the other."""
    spans = []
    for group in range(metadata.num_row_groups):
        for place in range(metadata.num_columns):
            column = metadata.row_group(group).column(place)
            starts = (column.dictionary_page_offset, column.data_page_offset)
            start = min(one for one in starts if one)
            spans.append((start, start + column.total_compressed_size))
    end = 4
    for start, stop in sorted(spans):
        if start != end:
            return False
        end = stop
    return bool(end + metadata.serialized_size + 8 == size)


def _of_its_cells(bounded: BoundedParquet, file: Any, name: str, group: int) -> bool:
    """Whether a dictionary lists the values of its cells in the order of their appearance."""
    import pyarrow as pa
    import pyarrow.compute as pc

    seen = listed = rows = 0
    coded = bounded.coded_rows(file, name, group)
    for part in bounded.batches(file, [name], group, ROWS_AT_ONCE) if coded else ():
        for chunk in part.column(0).chunks:
            if not pa.types.is_dictionary(chunk.type):
                return True
            codes = pc.unique(chunk.indices.drop_null())
            new = codes.filter(pc.greater_equal(codes, seen)).to_pylist()
            if new != list(range(seen, seen + len(new))):
                return False
            seen, listed = seen + len(new), len(chunk.dictionary)
        rows += part.num_rows
        if rows >= coded:
            break  # texts behind them are not in the dictionary, but its reader would collect them
    return seen == listed


def _wrong_in_arrow(path: Path, kinds: Mapping[str, str]) -> str | None:
    import pyarrow as pa

    with arrow_batches(path) as (schema, batches):
        wrong = _wrong_type(schema, kinds, coded=path.name.endswith(f".{CODED}"))
        if wrong is not None:
            return wrong
        lists: dict[str, pa.Array] = {}
        for batch in batches:
            for name, chunk in zip(schema.names, batch.columns, strict=True):
                cells = chunk
                if pa.types.is_dictionary(chunk.type):
                    cells = chunk.indices
                    if not lists.setdefault(name, chunk.dictionary).equals(chunk.dictionary):
                        return f"the column '{name}' has more than one list of values"
                if not _is_blank_where_missing(cells):
                    return f"the column '{name}' holds something where cells are missing"
    return _wrong_codes(path) if lists else None


def _wrong_codes(path: Path) -> str | None:
    """What is wrong about columns that are coded, as owners deliver them; looked at one by one."""
    import pyarrow as pa

    with arrow_batches(path) as (schema, _):
        names = schema.names
    for place, name in enumerate(names):
        with arrow_batches(path, [place]) as (schema, batches):
            column = pa.Table.from_batches(list(batches), schema).column(0)
        if pa.types.is_dictionary(column.type) and not is_coded(column):
            return f"the list of values of '{name}' is not the one that its cells make"
    return None


def _is_blank_where_missing(chunk: pa.Array) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    if not chunk.null_count:
        return True
    buffers = [None, *chunk.buffers()[1:]]
    whole = pa.Array.from_buffers(chunk.type, len(chunk), buffers, offset=chunk.offset)
    below = whole.filter(chunk.is_null())
    if pa.types.is_string(chunk.type):
        return bool(pc.all(pc.equal(pc.binary_length(below), 0)).as_py())
    nothing = below.cast(pa.int64()) if pa.types.is_timestamp(chunk.type) else below
    if pa.types.is_date32(chunk.type):
        nothing = below.cast(pa.int32())
    return bool(pc.all(pc.equal(nothing.cast(pa.float64()), 0.0)).as_py())
