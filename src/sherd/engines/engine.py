"""``Engine``: what a ranking method asks of the place where it runs, and the plainest answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import DTypeLike, NDArray

    from sherd.randomness import Randomness

ENGINES = ("memory", "columns", "duckdb")
"""Every engine that works on one machine, the lightest first."""

LEAST_MEMORY = 64 << 20
"""Below this DuckDB cannot sort at all."""


class Engine(Protocol):
    """Where the parts of a run that grow with the table lie, and how words are sorted."""

    @property
    def name(self) -> str:
        """The public name, as in ``--engine``."""

    @property
    def columns_at_once(self) -> int | None:
        """How many columns may be worked on at the same time; None: as many as threads."""

    def take_in(self, read: Callable[[], pa.Table | Iterator[pa.Table]]) -> pa.Table:
        """The table to protect, from a function that reads it whole or block by block."""

    def places(self, randomness: Randomness, rows: int, threads: int) -> NDArray[Any]:
        """A uniform permutation: where each row stands in the release."""

    def array(self, rows: int, kind: DTypeLike) -> NDArray[Any]:
        """An array of zeros, an item a row."""

    def sort(self, words: NDArray[np.uint64]) -> None:
        """Put the words into ascending order, in place."""

    def keep(self, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
        """The finished column, where it can stay until the release is written."""

    def close(self) -> None:
        """Give back whatever was taken for the run."""


class InMemory:
    """Everything lies in memory: the fastest, for tables that fit there with room to spare."""

    name = "memory"
    columns_at_once: int | None = None

    def take_in(self, read: Callable[[], pa.Table | Iterator[pa.Table]]) -> pa.Table:
        """The table as it was read."""
        import pyarrow as pa

        table = read()
        return pa.concat_tables(table) if isinstance(table, Iterator) else table

    def places(self, randomness: Randomness, rows: int, threads: int) -> NDArray[np.uint32]:
        """A uniform permutation by one sort."""
        return randomness.shuffle(rows, threads)

    def array(self, rows: int, kind: DTypeLike) -> NDArray[Any]:
        """Fresh memory."""
        return np.zeros(rows, kind)

    def sort(self, words: NDArray[np.uint64]) -> None:
        """Numpy's own sort."""
        words.sort()

    def keep(self, column: pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
        """The column as it is."""
        import pyarrow as pa

        return column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])

    def close(self) -> None:
        """Nothing was taken."""
