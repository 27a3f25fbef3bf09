"""Small public tables to try Sherd on, each with its schema; their licences: LICENSES.md.

>>> names()
('adult', 'wine', 'nursery')
>>> load("nursery").shape
(12960, 9)
>>> schema("adult")["income"].values
('<=50K', '>50K')
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import UsageError, did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.tables.schema import Schema

_NAMES = ("adult", "wine", "nursery")
_FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Every table's name."""
    return _NAMES


def path(name: str) -> Path:
    """The Parquet file of a table."""
    if name not in _NAMES:
        raise UsageError(
            "there is no such table",
            must="one of " + ", ".join(_NAMES),
            got=repr(name),
            do=did_you_mean(name, _NAMES) or None,
        )
    return _FOLDER / f"{name}.parquet"


def schema(name: str) -> Schema:
    """The schema of a table: public domains and values, roles and taxonomies."""
    from sherd.tables.schema import Schema

    return Schema.load(path(name).with_suffix(".yaml"))


def load(name: str, *, complete: bool = False) -> pa.Table:
    """A table; with ``complete`` only its rows without a missing cell.

    >>> load("adult", complete=True).num_rows
    45222
    """
    from sherd.tables.read import read

    table = read(path(name))
    return table.drop_null() if complete else table
