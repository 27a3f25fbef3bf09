"""Keeping the database in shape: copying it for backups, and giving room back that is free."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, inspect, select

from sherd.errors import StorageError, UsageError
from sherd.federation.aggregator.storage import database
from sherd.federation.aggregator.storage.tables import CHALLENGES, CHUNKS, METADATA, SESSIONS

if TYPE_CHECKING:
    from sqlalchemy import Connection, Table

    from sherd.federation.aggregator.storage.store import Store

_ROWS = 64
_PASSING = (CHALLENGES, SESSIONS)


def copy_store(source: Store, target: Store) -> None:
    """Copy everything that lasts into tables that are empty, as it was at one moment."""
    with database.snapshot(source.engine) as read, database.writing(target.engine) as write:
        for table in METADATA.sorted_tables:
            if table in _PASSING:
                continue
            rows = read.execution_options(yield_per=_ROWS).execute(select(table))
            for part in rows.mappings().partitions(_ROWS):
                write.execute(insert(table), [_whole(source, dict(row), table) for row in part])


def _whole(source: Store, row: dict[str, Any], table: Table) -> dict[str, Any]:
    """A row as a copy has it: with the chunk that lies in a file beside the database."""
    if table is CHUNKS and not row["data"] and source.bulk is not None:
        row["data"] = source.bulk.get(row["round"], row["sha256"]) or b""
    return row


def check_empty(store: Store) -> None:
    """Refuse a database that is an aggregator's already."""
    with database.reading(store.engine) as db:
        if inspect(db).has_table("rounds"):
            raise UsageError(
                "the database already holds an aggregator's tables",
                do="name an empty one; a backup is never mixed with what is there",
            )


def shrink(store: Store) -> None:
    """Give the disk back what purged rounds took; PostgreSQL does so by itself."""
    if store.engine.dialect.name != "sqlite":
        return
    with database.alone(store.engine) as db:
        _exec(db, "PRAGMA incremental_vacuum")
        _exec(db, "PRAGMA wal_checkpoint(TRUNCATE)")


def rebuild(store: Store) -> None:
    """Rewrite a file of an earlier version so that it can shrink from now on."""
    if store.engine.dialect.name != "sqlite":
        return
    with database.alone(store.engine) as db:
        if db.exec_driver_sql("PRAGMA auto_vacuum").scalar() != database.INCREMENTAL:
            _exec(db, f"PRAGMA auto_vacuum = {database.INCREMENTAL}")
            _exec(db, "VACUUM")


def _exec(db: Connection, statement: str) -> None:
    """Run a statement to its end: a pragma without columns is left after its first step."""
    driver = db.connection.driver_connection
    assert driver is not None
    try:
        driver.executescript(statement)
    except sqlite3.Error as error:  # SQLAlchemy does not see what its driver is asked directly
        raise StorageError(
            "the aggregator's database cannot be compacted",
            got=error.sqlite_errorname,
            do="check that its disk has room",
        ) from None
