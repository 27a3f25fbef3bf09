"""``columns``: one column at a time, everything else in files that are mapped, not held.

The table is streamed into an Arrow file once and mapped from there; a finished column is
written to a file of its own and mapped back. What stays in memory is what one column needs:
a word and a cell a row, and the row's place, whatever the number of columns. Mapped pages
belong to the files: the system takes them back when it needs room.

The files hold raw data. They lie in a folder that only its owner may read, their names are
removed as soon as they are mapped, so that nothing is left of them when the process ends,
however it ends.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from sherd.engines.engine import InMemory
from sherd.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


BLOCK_ROWS = 1 << 20
"""Rows written to a file at once."""


class MappedColumns(InMemory):
    """Columns in mapped files, one worked on at a time."""

    name = "columns"
    columns_at_once: int | None = 1

    def __init__(self, scratch: Path | None = None, block_rows: int = BLOCK_ROWS) -> None:
        self.block_rows = block_rows
        try:
            self.folder = Path(tempfile.mkdtemp(prefix=".sherd-engine-", dir=scratch))
        except OSError as error:
            raise StorageError(
                "the engine's folder cannot be made", got=f"{scratch}: {error.strerror}"
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
        shutil.rmtree(self.folder, ignore_errors=True)

    def _mapped(self, tables: Iterator[pa.Table]) -> pa.Table:
        path = self._fresh_file()
        first = next(tables)
        try:
            with (
                pa.OSFile(str(path), "wb") as file,
                pa.ipc.new_stream(file, first.schema) as writer,
            ):
                for table in itertools.chain([first], tables):
                    writer.write_table(table, max_chunksize=self.block_rows)
            with pa.memory_map(str(path)) as source:
                return pa.ipc.open_stream(source).read_all()
        except OSError as error:
            raise _full(self.folder, error) from None
        finally:
            path.unlink(missing_ok=True)

    def _fresh_file(self) -> Path:
        try:
            handle, name = tempfile.mkstemp(dir=self.folder)
        except OSError as error:
            raise _full(self.folder, error) from None
        os.close(handle)
        return Path(name)


def _full(folder: Path, error: OSError) -> StorageError:
    return StorageError(
        "the engine's files cannot be written",
        got=f"{folder.parent}: {error.strerror or 'the disk failed'}",
        do="make room there, or name another folder by TMPDIR",
    )
