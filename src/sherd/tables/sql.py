"""Tables out of databases, through drivers that speak Arrow.

A driver's message can quote a cell ("invalid input syntax for type integer: …") or the
address with its password, so none is passed on: what is said is the SQLSTATE and its
meaning.
"""

from __future__ import annotations

import contextlib
import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import (
    ConnectionFailedError,
    MissingPartError,
    SherdError,
    StorageError,
    TableError,
    UsageError,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.tables.address import Address

_STATES = {
    "28": "the login was refused",
    "3D": "the database does not exist",
    "42501": "the login may not read this",
    "42601": "the query is not valid SQL",
    "42703": "the query names a column that does not exist",
    "42P01": "the query names a table that does not exist",
    "22": "the query computes something that cannot be computed",
}


def read_sql(address: Address, *, lenient: bool = False, declared: bool = False) -> pa.Table:
    """The answer to the address's query.

    A column with values of several types is refused, unless what they mean is ``declared``: then
    it is text for the schema to judge. With ``lenient``, nothing is refused.
    """
    if address.scheme == "duckdb":
        return _duckdb(address)
    if address.scheme == "sqlite":
        path = _existing(address)
        driver = driver_of("adbc_driver_sqlite.dbapi")
        uri = path.resolve().as_uri() + "?mode=ro"
        try:
            return _adbc(driver, uri, address)
        except OSError:
            # The driver tells a column's type by its first 1024 rows, and gives up where a later
            # row has another.
            return _row_by_row(uri, address, lenient=lenient, declared=declared)
    return _adbc(driver_of("adbc_driver_postgresql.dbapi"), address.target, address)


def driver_of(name: str) -> Any:
    """The database driver of that name, or what to install."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise MissingPartError(
            f"the database driver {name.partition('.')[0]} is not installed",
            do="install it with: pip install 'sherd[sql]'",
        ) from None


def _existing(address: Address) -> Path:
    path = Path(address.target)
    if not path.is_file():
        raise UsageError("the database file does not exist", got=address.shown, do="check the path")
    return path


def _duckdb(address: Address) -> pa.Table:
    path = _existing(address)
    duckdb = driver_of("duckdb")
    try:
        with contextlib.closing(duckdb.connect(str(path), read_only=True)) as connection:
            answer = connection.sql(address.query)
            if answer is None:
                raise _refused(address, "no rows")
            return answer.to_arrow_table()
    except duckdb.IOException:
        raise StorageError(
            "the database cannot be opened",
            must="a DuckDB file that no other program is writing to",
            got=address.shown,
        ) from None
    except duckdb.Error as error:
        raise _refused(address, type(error).__name__) from None


def _adbc(driver: Any, uri: str, address: Address) -> pa.Table:
    try:
        connection = driver.connect(uri)
    except driver.Error as error:
        raise database_refused("the database cannot be reached", address.shown, error) from None
    with connection, connection.cursor() as cursor:
        try:
            if address.scheme == "postgresql":
                cursor.execute("SET TRANSACTION READ ONLY")
            cursor.execute(address.query)
            return cursor.fetch_arrow_table()
        except driver.Error as error:
            state = getattr(error, "sqlstate", None) or ""
            raise _refused(address, state) from None


def _row_by_row(uri: str, address: Address, *, lenient: bool, declared: bool) -> pa.Table:
    """The answer of a SQLite file by Python's own driver, its types told by all rows."""
    import sqlite3

    import pyarrow as pa

    from sherd.tables.canonical_form import are_plain, mixed_texts

    with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
        try:
            cursor = connection.execute(address.query)
            names = [column[0] for column in cursor.description or ()]
            rows = cursor.fetchall()
        except sqlite3.Error as error:
            raise _refused(address, type(error).__name__) from None
    columns = []
    for place, name in enumerate(names):
        cells = [row[place] for row in rows]
        try:
            columns.append(pa.array(cells))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
            if lenient or (declared and are_plain(cells)):
                columns.append(mixed_texts(cells))
                continue
            raise TableError(
                f"the column '{name}' holds values of several types",
                must="numbers, or text, in all rows",
                got=address.shown,
                do=f"say which in the query, for instance CAST({name} AS TEXT)",
            ) from None
    return pa.Table.from_arrays(columns, names=names)


def database_refused(what: str, shown: str, error: Exception) -> SherdError:
    """What a driver's error means, without its text, which may hold values."""
    return ConnectionFailedError(
        what + _meaning(getattr(error, "sqlstate", None) or ""),
        got=shown,
        do="check host, port, database, user and password",
    )


def _refused(address: Address, state: str) -> SherdError:
    return UsageError(
        "the database refused the query" + _meaning(state),
        got=address.shown,
        do="try the query in the database's own shell",
    )


def _meaning(state: str) -> str:
    text = _STATES.get(state) or _STATES.get(state[:2], "")
    said = ", ".join(part for part in (text, f"code {state}" if state else "") if part)
    return f" ({said})" if said else ""
