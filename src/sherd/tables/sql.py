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
    from collections.abc import Callable, Iterator

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


@contextlib.contextmanager
def open_snapshot(address: Address) -> Iterator[Callable[[str], pa.Table]]:
    """A function that answers queries about one state of a DuckDB or PostgreSQL database.

    Queries made here hold values of the data: neither they nor the database's words are told.
    """
    if address.scheme == "duckdb":
        with _duckdb_file(address) as connection:
            connection.execute("BEGIN TRANSACTION")
            yield lambda query: _duckdb_answer(connection, query, address)
        return
    driver = driver_of("adbc_driver_postgresql.dbapi")
    with _reached(driver, address.target, address) as connection, connection.cursor() as cursor:
        _adbc_answer(driver, cursor, _SNAPSHOT, address)
        _adbc_answer(driver, cursor, "SET standard_conforming_strings = on", address)
        yield lambda query: _adbc_answer(driver, cursor, query, address, fetch=True)


_SNAPSHOT = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY"


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
    with _duckdb_file(address) as connection:
        return _duckdb_answer(connection, address.query, address)


@contextlib.contextmanager
def _duckdb_file(address: Address) -> Iterator[Any]:
    path = _existing(address)
    duckdb = driver_of("duckdb")
    try:
        connection = duckdb.connect(str(path), read_only=True)
    except duckdb.IOException:
        raise StorageError(
            "the database cannot be opened",
            must="a DuckDB file that no other program is writing to",
            got=address.shown,
        ) from None
    except duckdb.Error as error:
        raise _refused(address, type(error).__name__) from None
    with contextlib.closing(connection):
        yield connection


def _duckdb_answer(connection: Any, query: str, address: Address) -> pa.Table:
    duckdb = driver_of("duckdb")
    try:
        answer = connection.sql(query)
        if answer is None:
            raise _refused(address, "no rows")
        return answer.to_arrow_table()
    except duckdb.Error as error:
        raise _refused(address, type(error).__name__) from None


def _adbc(driver: Any, uri: str, address: Address) -> pa.Table:
    with _reached(driver, uri, address) as connection, connection.cursor() as cursor:
        if address.scheme == "postgresql":
            _adbc_answer(driver, cursor, "SET TRANSACTION READ ONLY", address)
        return _adbc_answer(driver, cursor, address.query, address, fetch=True)


def _reached(driver: Any, uri: str, address: Address) -> Any:
    try:
        return driver.connect(uri)
    except driver.Error as error:
        raise database_refused("the database cannot be reached", address.shown, error) from None


def _adbc_answer(
    driver: Any, cursor: Any, query: str, address: Address, *, fetch: bool = False
) -> Any:
    try:
        cursor.execute(query)
        return cursor.fetch_arrow_table() if fetch else None
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
