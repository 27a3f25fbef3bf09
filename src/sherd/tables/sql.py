"""Databases: their addresses, how these may be shown, and tables out of them.

>>> redact("postgresql://ann:secret@db.example:5432/survey?sslmode=require")
'postgresql://***@db.example:5432/survey?***'
>>> Address.parse("sqlite:///people.db?table=person").query
'SELECT * FROM "person"'

Tables come through drivers that speak Arrow. A driver's message can quote a cell ("invalid input
syntax for type integer: …") or the address with its password, so none is passed on: the user is
told the SQLSTATE and what it means.
"""

from __future__ import annotations

import contextlib
import importlib
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlencode

from sherd.errors import (
    ConnectionFailedError,
    MissingPartError,
    SherdError,
    StorageError,
    TableError,
    UsageError,
    did_you_mean,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

SCHEMES = ("sqlite", "duckdb", "postgresql", "postgres")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*)://")
_SECRET = re.compile(r"(?i)(pass(?:word|wd|phrase|file)?|pwd|token|secret|key|user)\s*=\s*\S+")


def is_address(source: str) -> bool:
    """Whether a source is a database's address and not a file's path.

    >>> is_address("sqlite:///a.db"), is_address("people.csv"), is_address("C:/people.csv")
    (True, False, False)
    """
    return _SCHEME.match(source) is not None


def redact(address: str) -> str:
    """The address without anything secret: no user, no password, no settings, no query.

    All before the last ``@`` goes, since a password may contain ``@``, ``/`` or ``?`` that
    its writer forgot to encode; losing a part of the host's name is the lesser evil.
    """
    scheme = _SCHEME.match(address)
    head = scheme.group(0) if scheme else ""
    rest = address[len(head) :]
    if scheme or re.search(r":[^\s]*@", rest):
        before, at, after = rest.rpartition("@")
        rest = ("***@" + after) if at and before else after
    if scheme and "?" in rest:
        rest = rest.partition("?")[0] + "?***"
    return head + _SECRET.sub(lambda secret: f"{secret.group(1)}=***", rest)


@dataclass(frozen=True, kw_only=True)
class Address:
    """A database and the query to ask it.

    ``target`` is what the driver is given (a path, or an address with its credentials)
    and is kept out of the value's text.
    """

    scheme: str
    target: str = field(repr=False)
    query: str = field(repr=False)
    shown: str

    @classmethod
    def parse(cls, source: str, *, query: str | None = None) -> Address:
        """Take an address apart; ``query`` is used where the address holds none."""
        match = _SCHEME.match(source)
        scheme = match.group(1).lower() if match else ""
        shown = redact(source)
        if scheme not in SCHEMES:
            raise UsageError(
                "the database's kind is unknown",
                must="an address that begins with sqlite:///, duckdb:/// or postgresql://",
                got=shown,
                do=did_you_mean(scheme, SCHEMES) or None,
            )
        place, _, settings = source.partition("?")
        # The query may hold a literal '+' or '%', hence encoded in an address; a driver's own
        # settings (sslmode and the like) are passed on.
        pairs = parse_qsl(settings, keep_blank_values=True)
        ours = {key: value for key, value in pairs if key in ("query", "table")}
        kept = [(key, value) for key, value in pairs if key not in ("query", "table")]
        asked = [text for text in (query, ours.get("query"), ours.get("table")) if text]
        if len(asked) != 1:
            raise UsageError(
                "the database's address needs one query",
                must="given once: as a query, as ?query=… or as ?table=…",
                got=f"{len(asked)} of them",
                do="say which table or query to read, for example ?table=person",
            )
        text = _select(ours["table"]) if ours.get("table") else asked[0]
        if scheme in ("sqlite", "duckdb"):
            path = unquote(place.partition("://")[2])
            if not path.startswith("/") or len(path) < 2:
                raise UsageError(
                    "the database's address has no path",
                    must=f"{scheme}:///relative/path or {scheme}:////absolute/path",
                    got=shown,
                )
            return cls(scheme=scheme, target=path[1:], query=text, shown=shown)
        target = place + ("?" + urlencode(kept) if kept else "")
        return cls(scheme="postgresql", target=target, query=text, shown=shown)


def _select(table: str) -> str:
    """A query for a whole table; a dot parts the namespace from the name."""
    name = ".".join('"' + part.replace('"', '""') + '"' for part in table.split("."))
    return f"SELECT * FROM {name}"  # noqa: S608 - the name is quoted above


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
    table = _adbc(driver_of("adbc_driver_postgresql.dbapi"), address.target, address)
    return _without_infinite(table, address, lenient=lenient)


_WRAPPED = {
    "date32[day]": (-2_147_472_692, -2_147_472_691),
    "timestamp[us]": (-9_222_425_352_054_775_809, -9_222_425_352_054_775_808),
}
"""What PostgreSQL's driver makes of 'infinity' and '-infinity': both wrap around to the past."""


def _without_infinite(table: pa.Table, address: Address, *, lenient: bool) -> pa.Table:
    """The table, if no day or time in it is infinite; with ``lenient`` these are missing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for place, column in enumerate(table.columns):
        kind = column.type
        plain = pa.timestamp(kind.unit) if pa.types.is_timestamp(kind) else kind
        ends = _WRAPPED.get(str(plain))
        if ends is None:
            continue
        stored = pa.int32() if pa.types.is_date(kind) else pa.int64()
        infinite = pc.is_in(column.cast(stored), value_set=pa.array(ends, stored))
        if not pc.any(infinite).as_py():
            continue
        if not lenient:
            raise TableError(
                f"the column '{table.column_names[place]}' has infinite days or times",
                must="days and times from the year 4713 BC",
                got=address.shown,
                do="leave those rows out in the query, or make them NULL there",
            )
        finite = pc.if_else(infinite, pa.scalar(None, kind), column)
        table = table.set_column(place, table.schema.field(place), finite)
    return table


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
