"""``columns``: one column at a time, everything else in files that are mapped, not held.

The table is streamed into an Arrow file once and mapped from there; a finished column is
written to a file of its own and mapped back. What stays in memory is what one column needs:
a word and a cell a row, and the row's place, whatever the number of columns. Mapped pages
belong to the files: the system takes them back when it needs room.

The files hold raw data. They lie in a folder that only its owner may read and have no name there,
so that nothing is left of them when the process ends, however it ends. What a dead run leaves,
a folder, the next run beside it removes: a run holds a lock on its folder for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import mmap
import os
import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.engines.engine import InMemory
from sherd.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import DTypeLike, NDArray

    from sherd.randomness import Randomness

BLOCK_ROWS = 1 << 20
"""Rows written to a file at once."""

PREFIX = ".sherd-engine-"
"""How the names of engines' folders begin."""

MOST_PARTS = 256
"""The most parts in which rows are shuffled."""


class MappedColumns(InMemory):
    """Columns in mapped files, one worked on at a time."""

    name = "columns"
    columns_at_once: int | None = 1

    def __init__(self, scratch: Path | None = None, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        self._files: list[IO[bytes]] = []
        self._lock: int | None = None
        parent = Path(tempfile.gettempdir()) if scratch is None else scratch
        try:
            parent.mkdir(parents=True, exist_ok=True)  # as the release's own folder is made
            _clear_up(parent)
            self.folder, self._lock = _locked_folder(parent)
        except OSError as error:
            raise StorageError(
                "the engine's folder cannot be made",
                must="a folder that may be written to, with room for the table",
                got=f"{parent}: {error.strerror}",
                do="write the release to another folder",
            ) from None

    def take_in(self, read: Callable[[], pa.Table | Iterator[pa.Table]]) -> pa.Table:
        """Stream the table into a file and map it."""
        tables = read()
        return self._mapped(iter([tables]) if isinstance(tables, pa.Table) else tables)

    def keep(self, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
        """Write the column to a file of its own and map it from there."""
        return self._mapped(iter([pa.table({"cells": column})])).column("cells")

    def close(self) -> None:
        """Remove the folder; what is mapped stays readable until it is let go."""
        for file in self._files:
            with contextlib.suppress(OSError):  # what a full disk did not take was told already
                file.close()
        shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def places_by_parts(
        self, randomness: Randomness, rows: int, threads: int, part_rows: int
    ) -> NDArray[Any]:
        """A uniform permutation in a mapped file, of which one part is in memory at a time.

        It is exact. Every row is put into one of B parts, each equally likely and on its own;
        the rows of each part are then permuted uniformly in memory, and the parts follow each
        other (Rao 1961, Sandelius 1962). Any two orders of the rows are equally likely: given
        how many rows each part got, which rows they are is uniform, and so is their order inside.
        """
        parts = min(MOST_PARTS, max(1, -(-rows // part_rows)))
        bits = (parts - 1).bit_length()
        out = self.mapped_array(rows, np.uint32 if rows <= 1 << 32 else np.uint64)
        if parts == 1:
            out[:] = randomness.shuffle(rows, threads)
            return out
        part_of = self.mapped_array(rows, np.uint8)
        counts = np.zeros(1 << bits, np.int64)
        for start in range(0, rows, self.block_rows):
            count = min(self.block_rows, rows - start)
            drawn = randomness.words((count + 7) // 8).view(np.uint8)[:count] >> (8 - bits)
            part_of[start : start + count] = drawn
            counts += np.bincount(drawn, minlength=1 << bits)
        first = np.concatenate([[0], np.cumsum(counts)])
        for part in range(1 << bits):
            order = randomness.shuffle(int(counts[part]), threads)
            taken = 0
            for start in range(0, rows, self.block_rows):
                mine = np.flatnonzero(part_of[start : start + self.block_rows] == part)
                out[start + mine] = first[part] + order[taken : taken + len(mine)]
                taken += len(mine)
        return out

    def mapped_array(self, rows: int, kind: DTypeLike) -> NDArray[Any]:
        """An array in a file of its own, zeros until written."""
        if not rows:
            return np.zeros(0, kind)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                # Room is taken now: a page has no way to say that the disk is full.
                os.posix_fallocate(file.fileno(), 0, rows * np.dtype(kind).itemsize)
                return np.memmap(file, kind, "r+", shape=(rows,))
        except OSError as error:
            raise _full(self.folder, error) from None

    def _mapped(self, tables: Iterator[pa.Table]) -> pa.Table:
        first = next(tables)
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                with pa.ipc.new_stream(file, first.schema) as writer:
                    for table in itertools.chain([first], tables):
                        writer.write_table(table, max_chunksize=self.block_rows)
                file.flush()
                mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            return pa.ipc.open_stream(pa.py_buffer(mapped)).read_all()
        except OSError as error:
            raise _full(self.folder, error) from None

    def nameless_file(self) -> IO[bytes]:
        """A file to write and to map, which is gone when it is closed."""
        try:
            file = tempfile.TemporaryFile(dir=self.folder)  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise _full(self.folder, error) from None
        self._files.append(file)
        return file


def _locked_folder(parent: Path) -> tuple[Path, int]:
    """A new folder that only its owner may enter, and a lock on it that ends with the process."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        lock = os.open(folder, os.O_RDONLY)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return folder, lock
        os.close(lock)  # somebody cleared up just then, and took it for a dead run's


def _clear_up(parent: Path) -> None:
    """Remove the folders of runs that died: those of this user that nobody holds a lock on."""
    for folder in parent.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):  # somebody else's, a link, a living run's, or just gone
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                if os.fstat(lock).st_uid == os.getuid():
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _full(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        "the engine's files cannot be written",
        got=f"{folder.parent}: {error.strerror or 'the disk failed'}",
        do="make room there, or write the release to a larger disk",
    )
