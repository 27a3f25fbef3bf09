"""Backups of an aggregator: its folder, and its database whichever that is, in one file.

The database is copied row by row in one transaction into a SQLite file, so that a backup of
PostgreSQL can be restored anywhere. Releases are copied after it: a round that the copy says is
released has its release, and one that was being published finds it there. Sessions are not copied.
Rounds that went on after the backup was made are noticed by what owners have seen of them, and end
with a reason (``Aggregator.notice``).
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.federation.aggregator.aggregator_home import SETTINGS, AggregatorHome, AggregatorSettings
from sherd.federation.aggregator.storage import Store
from sherd.federation.aggregator.storage.upkeep import check_empty, copy_store
from sherd.federation.wire.backup_archive import folder_files, read_backup, write_backup
from sherd.federation.wire.settings_file import read_settings, write_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "aggregator"
DATABASE = "aggregator.db"


def back_up_aggregator(home: AggregatorHome, target: Path) -> Path:
    """Write a backup of an aggregator while it may be serving."""
    name = home.settings.name
    with tempfile.TemporaryDirectory(dir=home.folder, prefix=".backup-") as copies:
        return write_backup(target, kind=KIND, name=name, files=_files(home, Path(copies)))


def _files(home: AggregatorHome, copies: Path) -> Iterator[tuple[str, Path]]:
    with closing(home.store()) as store, closing(Store(f"sqlite:///{copies / DATABASE}")) as copy:
        copy.migrate()
        copy_store(store, copy)
    yield DATABASE, copies / DATABASE
    beside = {f"{DATABASE}{end}" for end in ("", "-wal", "-shm")}
    for place, path in folder_files(home.folder, leave_out={*beside, copies.name}):
        if not any(part.startswith(".") for part in Path(place).parts):  # not yet published
            yield place, path


def restore_aggregator(
    source: Path, folder: Path, *, database: str | None = None
) -> AggregatorHome:
    """Put an aggregator's backup into a new folder, and its database where it shall be."""
    if database is not None:
        with closing(Store(database)) as store:
            check_empty(store)
    read_backup(source, folder, kind=KIND)
    home = AggregatorHome(folder)
    known = read_settings(folder / SETTINGS, AggregatorSettings, "an aggregator", "aggregator")
    write_settings(folder / SETTINGS, replace(known, database=database))
    if database is None:
        home.store(upgrade=True).close()
        return home
    with closing(Store(home.default_database)) as copied, closing(Store(database)) as store:
        copied.migrate()
        store.migrate()
        copy_store(copied, store)
    for end in ("", "-wal", "-shm"):
        (folder / f"{DATABASE}{end}").unlink(missing_ok=True)
    return home
