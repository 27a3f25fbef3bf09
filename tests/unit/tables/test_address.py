"""Addresses of databases: taken apart rightly, and never shown with their secrets."""

from __future__ import annotations

import pytest

from sherd.errors import UsageError
from sherd.tables.address import Address, is_address, redact

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
