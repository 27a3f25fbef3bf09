"""Chunks beside a SQLite database: a file for each, which the database only knows of.

In the database a chunk would be written to its journal, from there into its file, and moved about
once more when the room is given back. A file is synced before the transaction commits that knows of
it, so that whatever the database knows is there; what a transaction that failed left behind goes
with the round. PostgreSQL keeps chunks itself: its aggregators may run on several machines.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from sherd.errors import StorageError
from sherd.tables.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

LEAST = 64 << 10
"""Smaller chunks stay in the database."""


class BulkFiles:
    """The chunks of rounds in a folder, each round's in one of its own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def takes(self, data: bytes | memoryview) -> bool:
        """Whether a chunk is large enough for a file."""
        return len(data) >= LEAST

    def put(self, round_id: str, sha256: str, data: bytes | memoryview) -> None:
        """Keep a chunk, synced; only under the round's lock."""
        place = self._folder / round_id
        try:
            if not place.is_dir():
                place.mkdir(mode=0o700, parents=True)
                sync_folder(self._folder)
                sync_folder(self._folder.parent)
            handle = os.open(place / sha256, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(handle, "wb", buffering=0) as file:
                if file.write(data) != len(data):
                    raise OSError("the disk took a part only")
                os.fsync(file.fileno())
            sync_folder(place)
        except OSError as error:
            raise StorageError(
                "a chunk cannot be written",
                got=f"{self._folder}: {error.strerror or 'the disk failed'}",
                do="make room there; it will be tried again",
            ) from None

    def get(self, round_id: str, sha256: str) -> bytes | None:
        """A chunk; None where there is none."""
        try:
            return (self._folder / round_id / sha256).read_bytes()
        except OSError:
            return None

    def drop(self, round_id: str) -> None:
        """Throw a round's chunks away."""
        shutil.rmtree(self._folder / round_id, ignore_errors=True)

    def rounds(self) -> list[str]:
        """The rounds that chunks are kept of."""
        return [each.name for each in self._folder.iterdir()] if self._folder.is_dir() else []

    def keep_only(self, rounds: Iterable[str], among: Iterable[str]) -> None:
        """Throw away what a process that died left of rounds that are over."""
        for name in set(among) - set(rounds):
            self.drop(name)
