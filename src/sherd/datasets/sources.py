"""Tables and schemas by the name a person gives: a file, a database, or one that ships."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sherd import datasets

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from sherd.tables.csvfile import Progress
    from sherd.tables.schema import Schema


def read(
    source: str | Path,
    *,
    schema: Schema | None = None,
    query: str | None = None,
    progress: Progress | None = None,
    lenient: bool = False,
) -> pa.Table:
    """Read the table in a file or a database, or one that comes with sherd (``:adult``).

    ``source`` is a path (.csv, .tsv, also compressed; .parquet; .feather, .arrow) or an
    address (``sqlite:///``, ``duckdb:///``, ``postgresql://``), which needs a ``query`` or
    ``?table=name``. With a schema the table's columns must be those of the schema and get
    its types; without one they have the types found. With ``lenient``, a text that is no value of
    its attribute's type is not refused here. ``progress`` is told the step, what is done of it
    and how much there is.
    """
    if isinstance(source, str) and source.startswith(":"):
        return datasets.load(source[1:])
    from sherd.tables.read import read as read_table

    return read_table(source, schema=schema, query=query, progress=progress, lenient=lenient)


def load_schema(
    path: str | Path, *, missing: str | None = None, outside: str | None = None
) -> Schema:
    """Load the schema in a file, or that of a table that comes with sherd (``:adult``).

    ``missing`` and ``outside`` are policies to take instead of the schema's own.
    """
    from sherd.tables.schema import Missing, Outside, Schema

    if str(path).startswith(":"):
        schema: Schema = datasets.schema(str(path)[1:])
    else:
        schema = Schema.load(path)
    if missing is not None:
        schema = replace(schema, missing=Missing(missing))
    return schema if outside is None else replace(schema, outside=Outside(outside))
