"""Sending each table of a release to a place of its own: a folder, or a PostgreSQL server.

Fragments are often kept apart for good: each server then holds a single fragment. The whole
release stays with its owner; a destination receives its table and nothing else, whole or not
at all. Everything is checked before data is read, as far as that is possible without writing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import OutputExistsError, StorageError, UsageError
from sherd.tables.sql import database_refused, driver_of, is_address, redact

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class Destination:
    """Where a table of a release goes; ``target`` may hold a password and is never shown."""

    table: str
    target: str = field(repr=False)

    @property
    def shown(self) -> str:
        """The target without anything secret."""
        return redact(self.target)

    @property
    def is_server(self) -> bool:
        """Whether the table goes to a database."""
        return is_address(self.target)


def destinations(given: Iterable[str]) -> tuple[Destination, ...]:
    """What ``TABLE=PLACE`` texts say, each table once.

    >>> [one.table for one in destinations(["fragment-1=a/", "fragment-2=b/"])]
    ['fragment-1', 'fragment-2']
    """
    places: list[Destination] = []
    for text in given:
        name, equals, target = text.partition("=")
        if not name or not equals or not target:
            raise UsageError(
                "a destination cannot be read",
                must="TABLE=FOLDER or TABLE=postgresql://…",
                got=redact(text),
            )
        if name in (one.table for one in places):
            raise UsageError("a table has two destinations", must="one", got=repr(name))
        if is_address(target) and not target.startswith(("postgresql://", "postgres://")):
            raise UsageError(
                "a table cannot be written to a database of this kind",
                must="postgresql://…, or a folder",
                got=redact(target),
            )
        places.append(Destination(table=name, target=target))
    return tuple(places)


def check_destinations(
    places: Sequence[Destination], *, force: bool, tables: Collection[str] | None = None
) -> None:
    """Raise before a release is made if a destination is taken or cannot be reached.

    ``tables`` are those that the release will have, where that is known.
    """
    if tables is not None:
        _check_named(places, tables)
    for place in places:
        if place.is_server:
            with _connected(place) as connection, connection.cursor() as cursor:
                cursor.execute("SELECT to_regclass($1) IS NOT NULL", (f'"{_name(place.table)}"',))
                taken = bool(cursor.fetchone()[0])
        else:
            taken = any(Path(place.target).glob(f"{place.table}.*"))
        if taken and not force:
            raise OutputExistsError(
                f"the destination of '{place.table}' holds such a table already",
                got=place.shown,
                do="choose another, or --force to replace it",
            )


def send(tables: Mapping[str, pa.Table], places: Sequence[Destination], *, force: bool) -> None:
    """Write every table to its destination, each whole or not at all."""
    _check_named(places, tables)
    for place in places:
        if place.is_server:
            _to_server(tables[place.table], place, force=force)
        else:
            _to_folder(tables[place.table], place)


def _check_named(places: Sequence[Destination], tables: Collection[str]) -> None:
    unknown = [place.table for place in places if place.table not in tables]
    if unknown:
        raise UsageError(
            "a destination names a table that the release does not have",
            must="one of " + ", ".join(sorted(tables)),
            got=repr(unknown[0]),
        )


def _name(table: str) -> str:
    """A table's name in a database, where everybody would have to quote a hyphen."""
    return table.replace("-", "_")


def _connected(place: Destination):  # type: ignore[no-untyped-def] # the driver has no types
    driver = driver_of("adbc_driver_postgresql.dbapi")
    try:
        return driver.connect(place.target)
    except driver.Error as error:
        raise database_refused("the database cannot be reached", place.shown, error) from None


def _to_server(table: pa.Table, place: Destination, *, force: bool) -> None:
    driver = driver_of("adbc_driver_postgresql.dbapi")
    with _connected(place) as connection, connection.cursor() as cursor:
        try:
            mode = "replace" if force else "create"
            cursor.adbc_ingest(_name(place.table), table.combine_chunks(), mode=mode)
            connection.commit()
        except driver.Error as error:
            raise database_refused(
                f"the database did not take '{place.table}'", place.shown, error
            ) from None


def _to_folder(table: pa.Table, place: Destination) -> None:
    from sherd.tables.write import write

    folder = Path(place.target)
    staged = folder / f".{place.table}.{os.getpid()}.parquet"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write(table, staged)
        staged.replace(folder / f"{place.table}.parquet")
    except OSError as error:
        staged.unlink(missing_ok=True)
        raise StorageError(
            f"'{place.table}' cannot be written", got=f"{place.shown}: {error.strerror}"
        ) from None
