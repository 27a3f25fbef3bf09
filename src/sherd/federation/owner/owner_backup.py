"""Backups of an owner's folder, and what a restored one must do first.

The journal is copied before the ledger, and the outbox after both: so whatever the copied journal
says was charged is charged in the copied ledger, and whatever is charged there has its artefact. An
agent may go on meanwhile. What it spends after the copy is made up for by `sherd owner recover`,
without which a restored folder does not run.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.federation.owner.owner_home import OwnerHome
from sherd.federation.wire.backup_archive import (
    copy_sqlite,
    folder_files,
    read_backup,
    write_backup,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

KIND = "owner"
_PASSING = ("lock", "attempt.json", "bulk", "releases", "restored")
"""What a restored folder does not need: releases can be fetched again."""


def back_up_owner(home: OwnerHome, target: Path) -> Path:
    """Write a backup of an owner's folder while its agent may be running."""
    name = home.settings.name
    with tempfile.TemporaryDirectory(dir=home.folder, prefix=".backup-") as copies:
        return write_backup(target, kind=KIND, name=name, files=_files(home, Path(copies)))


def _files(home: OwnerHome, copies: Path) -> Iterator[tuple[str, Path]]:
    databases = [path for path in (home.journal, home.ledger) if path.exists()]
    for path in databases:
        copy_sqlite(path, copies / path.name)
        yield path.name, copies / path.name
    beside = {f"{path.name}{end}" for path in databases for end in ("", "-wal", "-shm")}
    for place, path in folder_files(home.folder, leave_out={*beside, *_PASSING, copies.name}):
        yield place, path


def restore_owner(source: Path, folder: Path) -> OwnerHome:
    """Put an owner's backup into a new folder, which must be led back before it runs."""
    read_backup(source, folder, kind=KIND)
    home = OwnerHome(folder)
    home.mark_restored()
    return home
