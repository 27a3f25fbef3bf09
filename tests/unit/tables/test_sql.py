"""Databases: read through Arrow, read only, and refused without quoting cell or password.

Addresses are taken apart rightly, and never shown with their secrets.
"""

from __future__ import annotations

import datetime as dt
import sqlite3
import sys
from decimal import Decimal
from typing import TYPE_CHECKING
from urllib.parse import quote

import pyarrow as pa
import pytest

from sherd.errors import (
    ConnectionFailedError,
    MissingPartError,
    StorageError,
    TableError,
    UsageError,
)
from sherd.tables.read import read
from sherd.tables.schema import Schema
from sherd.tables.sql import Address, is_address, redact

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema.from_data(
    {
        "missing_values": ["?"],
        "attributes": {"age": {"type": "integer"}, "name": {"type": "category"}},
    }
)


@pytest.fixture
def sqlite(tmp_path: Path) -> str:
    """The address of an SQLite file with a table of people."""
    path = tmp_path / "people.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE person (age INTEGER, name TEXT)")
        connection.executemany("INSERT INTO person VALUES (?, ?)", [(39, "Zaphod"), (None, "?")])
    connection.close()
    return f"sqlite:///{path}"


@pytest.fixture
def duck(tmp_path: Path) -> str:
    """The address of a DuckDB file with a table of people."""
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "people.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE person AS SELECT 39 AS age, 'Zaphod' AS name")
        connection.execute("INSERT INTO person VALUES (NULL, '?')")
    return f"duckdb:///{path}"


@pytest.fixture
def postgres(postgresql: str) -> str:
    """The address of a PostgreSQL database with a table of people."""
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    with dbapi.connect(postgresql) as connection, connection.cursor() as cursor:
        cursor.execute("DROP TABLE IF EXISTS person")
        cursor.execute("CREATE TABLE person (age INTEGER, name TEXT)")
        cursor.execute("INSERT INTO person VALUES (39, 'Zaphod'), (NULL, '?')")
        connection.commit()
    return postgresql


@pytest.mark.parametrize("kind", ["sqlite", "duck", "postgres"])
def test_a_table_or_a_query_is_read_in_the_schemas_types(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """A whole table, a query in the address and a query beside it give the same."""
    address = request.getfixturevalue(kind)
    query = "SELECT age, name FROM person"
    tables = [
        read(f"{address}?table=person", schema=SCHEMA),
        read(f"{address}?query={quote(query)}", schema=SCHEMA),
        read(address, query=query, schema=SCHEMA),
    ]
    for table in tables:
        assert table.to_pydict() == {"age": [39, None], "name": ["Zaphod", None]}
        assert pa.types.is_integer(table.schema.field("age").type)


@pytest.mark.parametrize("kind", ["sqlite", "duck", "postgres"])
@pytest.mark.parametrize(
    "query",
    ["SELECT nothing FROM person", "SELECT * FROM nowhere", "SELEC 1", "DELETE FROM person"],
)
def test_a_refused_query_is_explained_without_the_drivers_words(
    kind: str, query: str, request: pytest.FixtureRequest
) -> None:
    """A wrong query is the caller's mistake, and a query cannot change the database."""
    address = request.getfixturevalue(kind)
    with pytest.raises(UsageError, match="refused the query") as caught:
        read(address, query=query)
    assert "Zaphod" not in str(caught.value)
    if kind == "postgres":
        password = address.split(":")[2].split("@")[0]
        assert password not in str(caught.value)
    assert read(f"{address}?table=person").num_rows == 2


def test_a_column_may_begin_with_many_missing_cells(tmp_path: Path) -> None:
    """SQLite's driver looks at the first thousand rows only; all of them tell the type."""
    path = tmp_path / "late.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE person (age INTEGER, name TEXT)")
        connection.executemany(
            "INSERT INTO person VALUES (?, ?)", [(None, None)] * 2000 + [(39, "Zaphod")]
        )
    connection.close()
    table = read(f"sqlite:///{path}?table=person", schema=SCHEMA)
    assert table.num_rows == 2001
    assert table.slice(2000).to_pydict() == {"age": [39], "name": ["Zaphod"]}


def test_a_column_of_several_types_is_named(tmp_path: Path) -> None:
    """SQLite lets a column hold anything; the message names the column and no cell."""
    path = tmp_path / "mixed.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE person (age, name TEXT)")
        connection.executemany(
            "INSERT INTO person VALUES (?, ?)", [(39, "Ford")] * 2000 + [("Zaphod", "x")]
        )
    connection.close()
    with pytest.raises(TableError, match="'age' holds values of several types") as caught:
        read(f"sqlite:///{path}?table=person")
    assert "Zaphod" not in str(caught.value)


def test_a_failing_cell_is_not_quoted(postgres: str) -> None:
    """PostgreSQL quotes the cell it cannot convert; Sherd does not."""
    with pytest.raises(UsageError, match="22P02") as caught:
        read(postgres, query="SELECT name::integer FROM person")
    assert "Zaphod" not in str(caught.value)
    assert "Zaphod" not in repr(caught.value.__cause__)


def test_a_database_that_is_not_there_is_said_without_its_password(postgres: str) -> None:
    """A refused login, a missing database and a dead port never show the credentials."""
    head, _, rest = postgres.partition("@")
    wrong = [
        f"postgresql://steward:hunter2@{rest}",
        f"{head}@{rest.partition('/')[0]}/nowhere",
        "postgresql://steward:hunter2@127.0.0.1:1/postgres",
    ]
    for address in wrong:
        with pytest.raises(ConnectionFailedError, match="cannot be reached") as caught:
            read(address, query="SELECT 1")
        assert "hunter2" not in str(caught.value)
        assert head.rpartition(":")[2] not in str(caught.value)
        assert caught.value.exit_code == 5


def test_postgresql_types_arrive(postgres: str) -> None:
    """Numerics, dates, times with zone and booleans fit the attributes they should."""
    query = (
        "SELECT 1.50::numeric AS n, DATE '2020-01-31' AS d, "
        "TIMESTAMPTZ '2020-01-31 12:00:00+02' AS t, true AS b, 1::bigint AS i, 'x'::varchar AS c"
    )
    kinds = {"n": "number", "d": "date", "t": "datetime", "b": "boolean", "i": "integer"}
    given = Schema.from_data({"attributes": {n: {"type": k} for n, k in kinds.items()}
                              | {"c": {"type": "category"}}})  # fmt: skip
    row = read(postgres, query=query, schema=given).to_pylist()[0]
    assert row["n"] in (1.5, Decimal("1.50"))
    assert row["d"] == dt.date(2020, 1, 31)
    assert row["t"] == dt.datetime(2020, 1, 31, 10, tzinfo=dt.UTC)
    assert (row["b"], row["i"], row["c"]) == (True, 1, "x")


@pytest.mark.parametrize("kind", ["date", "timestamp", "timestamptz"])
@pytest.mark.parametrize("cell", ["infinity", "-infinity"])
def test_infinite_days_of_postgresql_are_refused(postgres: str, kind: str, cell: str) -> None:
    """The driver wraps them around, so the end of time would be read as its beginning."""
    values = f"('2020-01-31'), ('{cell}'), ('4713-01-01 BC')"
    query = f"SELECT c::{kind} FROM (VALUES {values}) t (c)"  # noqa: S608
    kind_of = {"type": "date" if kind == "date" else "datetime"}
    given = Schema.from_data({"attributes": {"c": kind_of}})
    with pytest.raises(TableError, match="the column 'c' has infinite days or times"):
        read(postgres, query=query, schema=given)
    strictly = read(postgres, query=query, schema=given, lenient=True)["c"]
    assert strictly.is_null().to_pylist() == [False, True, False]
    finite = query.replace(cell, "294276-12-31")
    assert read(postgres, query=finite, schema=given)["c"].null_count == 0


@pytest.mark.parametrize("scheme", ["sqlite", "duckdb"])
def test_a_database_file_that_is_not_there_is_not_made(scheme: str, tmp_path: Path) -> None:
    """Reading never creates an empty database."""
    path = tmp_path / "none.db"
    with pytest.raises(UsageError, match="does not exist"):
        read(f"{scheme}:///{path}?table=x")
    assert not path.exists()


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    """Other bytes under a database's address are refused."""
    pytest.importorskip("duckdb")
    path = tmp_path / "x.db"
    path.write_text("Zaphod" * 1000)
    with pytest.raises(StorageError, match="cannot be opened"):
        read(f"duckdb:///{path}?table=x")
    with pytest.raises(UsageError, match="refused the query"):
        read(f"sqlite:///{path}?table=x")


@pytest.mark.parametrize(
    ("address", "module"),
    [
        ("sqlite:///{}", "adbc_driver_sqlite.dbapi"),
        ("duckdb:///{}", "duckdb"),
        ("postgresql://ann:hunter2@h/d#{}", "adbc_driver_postgresql.dbapi"),
    ],
)
def test_a_missing_driver_says_how_to_get_it(
    address: str, module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the optional drivers the way to install them is named."""
    path = tmp_path / "x.db"
    path.touch()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingPartError, match=r"pip install 'sherd\[sql\]'"):
        read(address.format(path), query="SELECT 1")


def test_a_query_without_an_answer_is_refused(duck: str) -> None:
    """A query that is no query gives no table."""
    with pytest.raises(UsageError, match="refused the query"):
        read(duck, query=" ; ")


SECRETS = [
    "postgresql://ann:hunter2@db.example/x",
    "postgresql://ann:hun@ter2@db.example/x",
    "postgresql://ann:hun/ter2@db.example/x",
    "postgresql://ann:hun?ter2@db.example/x",
    "postgresql://ann:hunter2@db.example/x?query=select%201",
    "postgresql://db.example/x?user=ann&password=hunter2",
    "postgresql:///x?password=hunter2&table=t",
    "postgres://hunter2@db.example",
    "mysql://ann:hunter2@db.example/x",
    "ann:hunter2@db.example/x",
    "postgresql:/ann:hunter2@db.example/x",
    "host=db.example user=ann password=hunter2",
    "host=db.example Password = hunter2",
]


@pytest.mark.parametrize("address", SECRETS)
def test_redact_leaves_no_user_and_no_password(address: str) -> None:
    """Whatever the spelling, neither the password nor the user's name is left."""
    shown = redact(address)
    for secret in ("hunter2", "hun", "ter2", "ann"):
        assert secret not in shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("postgresql://ann:x@db.example:5432/survey", "postgresql://***@db.example:5432/survey"),
        ("postgresql://db.example/survey", "postgresql://db.example/survey"),
        ("sqlite:///people.db?table=person", "sqlite:///people.db?***"),
        ("folder/people.csv", "folder/people.csv"),
        ("folder/people@home.csv", "folder/people@home.csv"),
    ],
)
def test_redact_keeps_what_helps(address: str, shown: str) -> None:
    """Host, port, database and path stay, so that a message says which one is meant."""
    assert redact(address) == shown


@pytest.mark.parametrize("address", [a for a in SECRETS if a.startswith(("postgres", "mysql"))])
def test_an_address_shows_no_secret_whatever_becomes_of_it(address: str) -> None:
    """Neither the value's text nor an error's message holds a secret."""
    try:
        text = repr(Address.parse(address, query="SELECT 1"))
    except UsageError as error:
        text = str(error)
    assert "hunter2" not in text
    assert "ann" not in text


def test_a_driver_gets_its_settings_and_not_ours() -> None:
    """The query leaves the address; what the driver understands stays in it."""
    address = Address.parse("postgresql://a:b@h/d?sslmode=require&query=SELECT%201%2B1")
    assert address.query == "SELECT 1+1"
    assert address.target == "postgresql://a:b@h/d?sslmode=require"


def test_a_table_is_quoted() -> None:
    """A table's name cannot break out of its quotes; a dot names its namespace."""
    address = Address.parse('sqlite:///x.db?table=a"b.c')
    assert address.query == 'SELECT * FROM "a""b"."c"'
    assert address.target == "x.db"


def test_an_absolute_path_has_four_slashes() -> None:
    """As with other tools, three slashes begin a relative path and four an absolute one."""
    assert Address.parse("duckdb:////tmp/x.db", query="SELECT 1").target == "/tmp/x.db"  # noqa: S108


@pytest.mark.parametrize(
    ("source", "query"),
    [
        ("sqlite:///x.db", None),
        ("sqlite:///x.db?table=a&query=b", None),
        ("sqlite:///x.db?table=a", "SELECT 1"),
    ],
)
def test_an_address_needs_exactly_one_query(source: str, query: str | None) -> None:
    """No query, or two that could contradict each other, are refused."""
    with pytest.raises(UsageError, match="needs one query"):
        Address.parse(source, query=query)


@pytest.mark.parametrize("source", ["sqlite://", "sqlite:///", "sqlite://x.db"])
def test_a_file_database_needs_a_path(source: str) -> None:
    """An address of a file without a path says how it is written."""
    with pytest.raises(UsageError, match="has no path"):
        Address.parse(source, query="SELECT 1")


def test_an_unknown_database_is_refused_with_a_hint() -> None:
    """A mistyped kind is answered with the nearest known one."""
    with pytest.raises(UsageError, match="did you mean 'postgresql'"):
        Address.parse("postgressql://a:b@h/d", query="SELECT 1")


def test_a_path_is_not_an_address() -> None:
    """Windows drives and plain names are paths."""
    assert not is_address("C:/people.csv")
    assert not is_address("people.csv")
    assert is_address("mysql://h/d")
