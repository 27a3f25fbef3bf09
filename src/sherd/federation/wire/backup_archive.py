"""Backups of an owner's or an aggregator's folder: one file, whole or not at all, checked.

A backup is a tar archive whose last member lists every file with its hash. It holds the folder's
keys, so that only its user may read it. Reading one takes plain files into a new folder and nothing
else: no link, no name that leads out, no file that is not listed.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import tarfile
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING, Any

from sherd.errors import FormatError, OutputExistsError, SherdError, StorageError
from sherd.tables.files import sync_file, sync_folder
from sherd.values import from_data, to_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from sqlite3 import Connection

INDEX = "backup.json"
_MOST_INDEX = 64 << 20


@dataclass(frozen=True, kw_only=True)
class BackupIndex:
    """What a backup says of itself: whose it is, when it was made, and its files' hashes."""

    format: str = "sherd-backup-1"
    kind: str
    name: str
    created: str
    version: str
    files: dict[str, str]


class _Hashed(io.RawIOBase):
    """A file that is hashed while it is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self.hash = file, hashlib.sha256()

    def readable(self) -> bool:
        """Whether it can be read: always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Read bytes, and hash them."""
        data = self._file.read(size)
        self.hash.update(data)
        return data


def write_backup(target: Path, *, kind: str, name: str, files: Iterable[tuple[str, Path]]) -> Path:
    """Write files into a new backup, by the names they shall have in the folder."""
    from sherd import __version__

    if target.exists():
        raise OutputExistsError("the backup already exists", got=str(target), do="choose another")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        handle, hidden = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as error:
        raise _unwritten(target, error) from None
    staged, hashes = Path(hidden), dict[str, str]()
    try:
        with os.fdopen(handle, "wb") as out, tarfile.open(fileobj=out, mode="w") as archive:
            for place, path in files:
                hashes[place] = _add(archive, place, path)
            created = datetime.now(UTC).isoformat(timespec="seconds")
            index = BackupIndex(
                kind=kind, name=name, created=created, version=__version__, files=hashes
            )
            text = json.dumps(to_data(index), indent=1).encode()
            entry = tarfile.TarInfo(INDEX)
            entry.size, entry.mode = len(text), 0o600
            archive.addfile(entry, io.BytesIO(text))
        sync_file(staged)
        staged.rename(target)
        sync_folder(target.parent)
    except BaseException as error:
        staged.unlink(missing_ok=True)
        if isinstance(error, OSError) and not isinstance(error, SherdError):
            raise _unwritten(target, error) from None
        raise
    return target


def _unwritten(target: Path, error: OSError) -> StorageError:
    got = f"{target}: {error.strerror}"
    return StorageError("the backup cannot be written", got=got, do="make room, or write elsewhere")


def _add(archive: tarfile.TarFile, place: str, path: Path) -> str:
    """Add one file; its hash as it was read."""
    with path.open("rb") as file:
        entry = tarfile.TarInfo(place)
        status = os.fstat(file.fileno())
        entry.size, entry.mode = status.st_size, status.st_mode & 0o700
        hashed = _Hashed(file)
        archive.addfile(entry, hashed)
    return hashed.hash.hexdigest()


def read_backup(source: Path, folder: Path, *, kind: str) -> BackupIndex:
    """Put a backup's files into a new folder, each as it was; nothing where any is not."""
    if folder.exists():
        raise OutputExistsError("the folder already exists", got=str(folder), do="choose another")
    folder.parent.mkdir(parents=True, exist_ok=True)
    staged = Path(tempfile.mkdtemp(dir=folder.parent, prefix=f".{folder.name}."))
    try:
        index = _unpack(source, staged)
        if index.kind != kind:
            raise FormatError(
                "the backup is of another kind", must=f"of an {kind}", got=f"an {index.kind}"
            )
        for path in sorted(staged.rglob("*")):
            sync_folder(path) if path.is_dir() else sync_file(path)
        sync_folder(staged)
        staged.rename(folder)
        sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(staged, ignore_errors=True)
        raise
    return index


def _unpack(source: Path, staged: Path) -> BackupIndex:
    hashes: dict[str, str] = {}
    listed: Any = None
    try:
        with tarfile.open(source, mode="r:") as archive:
            for entry in archive:
                file = archive.extractfile(entry) if entry.isfile() else None
                if file is None or listed is not None or entry.name in hashes:
                    raise ValueError
                if entry.name == INDEX:
                    if entry.size > _MOST_INDEX:
                        raise ValueError
                    listed = json.loads(file.read())
                    continue
                hashes[entry.name] = _put(staged, entry, file)
        index = from_data(BackupIndex, listed)
    except OSError as error:
        got = f"{source}: {error.strerror}"
        raise StorageError("the backup cannot be read", got=got) from None
    except (ValueError, tarfile.TarError, RecursionError, SherdError):
        raise _damaged(source) from None
    if index.files != hashes or index.format != "sherd-backup-1":
        raise _damaged(source)
    return index


def _damaged(source: Path) -> FormatError:
    return FormatError(
        "the file is not a complete backup",
        must="as `backup` wrote it, every byte",
        got=str(source),
    )


def _put(staged: Path, entry: tarfile.TarInfo, file: IO[bytes]) -> str:
    """Write one member into the folder; its hash."""
    place = PurePosixPath(entry.name)
    if place.is_absolute() or ".." in place.parts or not place.parts:
        raise ValueError
    path = staged / place
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    hashed = _Hashed(file)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, entry.mode & 0o700)
    with os.fdopen(handle, "wb") as out:
        shutil.copyfileobj(hashed, out)
    return hashed.hash.hexdigest()


def folder_files(folder: Path, *, leave_out: Iterable[str] = ()) -> Iterator[tuple[str, Path]]:
    """Every file below a folder by its place in it, but for some names at its top."""
    out = set(leave_out)
    for path in sorted(folder.rglob("*")):
        place = path.relative_to(folder)
        if place.parts[0] not in out and path.is_file() and not path.is_symlink():
            yield place.as_posix(), path


def copy_sqlite(source: Path, target: Path) -> None:
    """A copy of a SQLite file that others may be writing to, as it was at one moment."""
    import contextlib
    import sqlite3

    def opened(path: Path, mode: str) -> Connection:
        return sqlite3.connect(f"file:{path}?mode={mode}", uri=True, timeout=30.0)

    try:
        with (
            contextlib.closing(opened(source, "rw")) as one,
            contextlib.closing(opened(target, "rwc")) as two,
        ):
            one.backup(two)
            two.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        got = f"{source}: {error}"
        raise StorageError("the database cannot be copied", got=got) from None
