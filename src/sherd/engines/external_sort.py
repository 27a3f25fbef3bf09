"""``duckdb``: columns too long for memory, sorted by DuckDB within a limit.

As ``columns``, and besides: words, places and cells lie in mapped files, words are sorted by
DuckDB, which spills to disk, and rows are shuffled part by part.

What DuckDB spills has a name. A small process that outlives this one waits for its end and removes
it then, also where this one is killed.
"""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.engines.engine import LEAST_MEMORY
from sherd.engines.mapped_columns import BLOCK_ROWS, MappedColumns
from sherd.errors import MissingPartError, StorageError

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import DTypeLike, NDArray

    from sherd.randomness import Randomness

_BYTES_A_ROW = 24
"""What permuting a row of a part takes in memory."""


class ExternalSort(MappedColumns):
    """Words sorted by DuckDB; nothing that grows with the rows is held in memory."""

    name = "duckdb"

    def __init__(
        self,
        scratch: Path | None = None,
        block_rows: int = BLOCK_ROWS,
        memory: int = 1 << 30,
        part_rows: int | None = None,
    ) -> None:
        try:
            import duckdb
        except ImportError:
            raise MissingPartError(
                "the engine duckdb is not installed",
                must="the library duckdb",
                do="install it with `pip install 'sherd[sql]'`, or choose --engine columns",
            ) from None
        super().__init__(scratch, block_rows)
        self.memory = max(LEAST_MEMORY, memory)
        self.part_rows = part_rows or max(1, self.memory // 2 // _BYTES_A_ROW)
        self._duckdb = duckdb
        self._watcher: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """Remove the folder; what is mapped stays readable until it is let go."""
        super().close()
        if self._watcher is not None:
            self._watcher.communicate()
            self._watcher = None

    def places(self, randomness: Randomness, rows: int, threads: int) -> NDArray[Any]:
        """A uniform permutation, part by part."""
        return self.places_by_parts(randomness, rows, threads, self.part_rows)

    def array(self, rows: int, kind: DTypeLike) -> NDArray[Any]:
        """An array in a file of its own, zeros until written."""
        return self.mapped_array(rows, kind)

    def sort(self, words: NDArray[np.uint64]) -> None:
        """Sort by DuckDB, which spills into the engine's folder."""
        if len(words) < 2:
            return
        self._watch()
        sorted_words = self.array(len(words), np.uint64)
        column = pa.Array.from_buffers(pa.uint64(), len(words), [None, pa.py_buffer(words)])
        given = pa.table({"word": column})
        try:
            self._sort_into(sorted_words, given)
        except self._duckdb.Error as error:
            # DuckDB's own words name its files and settings, and may go on for a page.
            raise StorageError(
                "the engine duckdb cannot sort a column",
                got=f"{self.folder.parent}: {type(error).__name__}",
                do="make room there, or allow more memory with --memory",
            ) from None
        for start in range(0, len(words), self.block_rows):
            stop = start + self.block_rows
            words[start:stop] = sorted_words[start:stop]

    def _sort_into(self, sorted_words: NDArray[np.uint64], given: pa.Table) -> None:
        with self._duckdb.connect(config=self._settings()) as connection:
            connection.register("given", given)
            ordered: Any = connection.sql("SELECT word FROM given ORDER BY word")
            done = 0
            for batch in ordered.to_arrow_reader(self.block_rows):
                block = np.frombuffer(
                    batch.column(0).buffers()[1], np.uint64, len(batch), batch.column(0).offset * 8
                )
                sorted_words[done : done + len(block)] = block
                done += len(block)
            connection.unregister("given")

    def _watch(self) -> None:
        """Start what removes spilled words when this process is gone: its input ends then."""
        if self._watcher is None:
            self._watcher = subprocess.Popen(  # noqa: S603 - fixed words and our own folder
                ["/bin/sh", "-c", 'read -r _; rm -rf -- "$0"', str(self.folder.absolute())],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    def _settings(self) -> dict[str, Any]:
        return {
            "memory_limit": f"{self.memory // 2 >> 20}MiB",
            "temp_directory": str(self.folder / "spill"),
            "preserve_insertion_order": False,
        }
