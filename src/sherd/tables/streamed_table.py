"""A table that is never whole in memory: its columns' types, its rows, and pieces on demand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa


@dataclass(frozen=True, kw_only=True)
class StreamedTable:
    """What writing a released table needs of it; ``pieces`` may be asked for more than once.

    The pieces are in released form already and of the rows of a row group of Parquet
    (``sherd.tables.write.rows_of_piece``), so that it is written as Parquet only.
    """

    schema: pa.Schema
    num_rows: int
    pieces: Callable[[], Iterator[pa.Table]]

    @property
    def column_names(self) -> list[str]:
        """The columns' names."""
        return list(self.schema.names)

    @property
    def num_columns(self) -> int:
        """How many columns there are."""
        return len(self.schema)
