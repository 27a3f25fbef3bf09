"""Where a bundle is written before it is published: a hidden folder, plain or sealed."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import IO, TYPE_CHECKING, Any, cast

from sherd.errors import StorageError
from sherd.tables.files import make_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.budget.sealed_folder import SealedFile


def hidden_beside(folder: Path) -> Path:
    """Where a bundle is staged: known before it is made, so that an interrupt finds it."""
    return folder.parent / f".{folder.name}.staged-{secrets.token_hex(8)}"


def make_hidden(hidden: Path, folder: Path) -> None:
    """Make the folder in which a bundle is staged."""
    try:
        make_folder(folder.parent)
        hidden.mkdir(mode=0o700)
    except OSError as error:
        raise StorageError(
            "the output folder cannot be made", got=f"{folder}: {error.strerror}"
        ) from None


class StagingDesk:
    """Where the files of one bundle are written: plainly, or sealed under a key."""

    def __init__(self, key: str | None) -> None:
        self._key = key
        self._sealed: dict[Path, SealedFile] = {}

    def open(self, path: Path) -> IO[bytes]:
        """A file to write from its beginning."""
        if self._key is None:
            return path.open("wb")
        from sherd.budget.sealed_folder import SealedFile

        self._sealed[path] = SealedFile(path, self._key)
        return cast("IO[bytes]", self._sealed[path])

    def write(self, path: Path, data: Mapping[str, Any]) -> None:
        """Write plain data as JSON."""
        with self.open(path) as file:
            file.write((json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode())

    def facts(self, path: Path) -> dict[str, Any]:
        """The hash and the size of what was written."""
        if path in self._sealed:
            return {"sha256": self._sealed[path].sha256, "bytes": self._sealed[path].bytes}
        with path.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return {"sha256": sha256, "bytes": path.stat().st_size}
