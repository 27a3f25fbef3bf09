"""Columns of a Parquet file in bounded memory, however many there are and however long their texts.

Left to itself, the library holds a whole column's share of a row group, of all columns that are
read. Here a column is read through a small buffer, some rows at a time: as many as fit, by what
the headers of its pages say of the longest row.
"""

from __future__ import annotations

import mmap
import tempfile
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.verifying.parquet_pages import coded_rows, row_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

MOST_AT_ONCE = 16 << 20
"""Bytes of cells that are read together."""

ROWS_AT_ONCE = 1 << 16
"""Rows of a column that are read together at most, where it is put together again."""

_BUFFER = 1 << 18
_CELL = 8
_LONGEST_TEXT = (1 << 31) - 1


class TextsTooLongError(Exception):
    """A row group has more bytes of texts in one column than an array can hold."""


def opened(path: Path, **options: Any) -> Any:
    """A Parquet file that is read through a small buffer for every column."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER, **options)


@dataclass(frozen=True, kw_only=True)
class BoundedParquet:
    """How many rows of which columns can be read together."""

    path: Path
    _row_bytes: dict[tuple[int, str], int] = field(default_factory=dict, repr=False)

    def rows_at_once(self, file: Any, names: Sequence[str], group: int, most: int) -> int:
        """As many rows of these columns of a row group as there is room for."""
        size = sum(self._size(file, name, group) for name in _read_with(file, names))
        return max(1, min(most, MOST_AT_ONCE // max(1, size)))

    def batches(self, file: Any, names: Sequence[str], group: int, most: int) -> Iterator[pa.Table]:
        """These columns of a row group, some rows at a time."""
        rows = self.rows_at_once(file, names, group, most)
        options = {"row_groups": [group], "columns": list(names), "use_threads": False}
        for batch in file.iter_batches(rows, **options):
            # Asked for `age`, Parquet also gives `age.1`.
            yield pa.Table.from_batches([batch]).select(list(names))

    def coded_rows(self, file: Any, name: str, group: int) -> int:
        """How many of a row group's texts are given by their place in a dictionary."""
        return coded_rows(self.path, file.metadata, group, file.schema_arrow.names.index(name))

    def _size(self, file: Any, name: str, group: int) -> int:
        if (group, name) not in self._row_bytes:
            place = file.schema_arrow.names.index(name)
            size = _CELL
            kind = file.schema_arrow.field(place).type
            if pa.types.is_string(kind):
                size += row_bytes(self.path, file.metadata, group, place)
            self._row_bytes[group, name] = size
        return self._row_bytes[group, name]


def _read_with(file: Any, names: Sequence[str]) -> set[str]:
    """The columns that are read where these are asked for."""
    starts = tuple(f"{name}." for name in names)
    return {name for name in file.schema_arrow.names if name in names or name.startswith(starts)}


def joined(bounded: BoundedParquet, file: Any, name: str, group: int, room: int) -> pa.Array:
    """A column's share of a row group as one array, mapped from a file if it exceeds the room."""
    batches = bounded.batches(file, [name], group, ROWS_AT_ONCE)
    kind = file.schema_arrow.field(name).type
    rows = file.metadata.row_group(group).num_rows
    if not rows or most_bytes(bounded, file, name, group) <= room:
        arrays = [chunk for part in batches for chunk in part.column(0).chunks]
        return pa.concat_arrays(arrays) if arrays else pa.array([], kind)
    with tempfile.TemporaryFile() as sink:
        cells = _Cells(kind, rows, sink)
        for part in batches:
            for chunk in part.column(0).chunks:
                cells.add(chunk)
        return cells.mapped()


def most_bytes(bounded: BoundedParquet, file: Any, name: str, group: int) -> int:
    """What a column's share of a row group takes at most."""
    rows: int = file.metadata.row_group(group).num_rows
    return rows * bounded._size(file, name, group)  # noqa: SLF001 - of this module


class _Cells:
    """Cells that are gathered in a file: their bytes, then the ends of texts, then what is there.

    What is not bytes of cells takes at most five bytes a row and waits in memory, in arrays that
    are made once: small ones beside large blocks that come and go would pin the allocator's memory.
    """

    def __init__(self, kind: pa.DataType, rows: int, file: Any) -> None:
        self._kind, self._file = kind, file
        self._rows = self._size = 0
        self._ends = np.zeros(rows + 1 if pa.types.is_string(kind) else 0, np.int32)
        self._there = np.ones(rows, np.bool_)
        self._bits = np.zeros(rows if pa.types.is_boolean(kind) else 0, np.bool_)

    def add(self, chunk: pa.Array) -> None:
        """Some more cells."""
        here = slice(self._rows, self._rows + len(chunk))
        self._rows += len(chunk)
        if chunk.null_count:
            self._there[here] = chunk.is_valid().to_numpy(zero_copy_only=False)
        if len(self._bits):
            self._bits[here] = chunk.fill_null(False).to_numpy(zero_copy_only=False)
        elif len(self._ends):
            ends = np.frombuffer(chunk.buffers()[1], np.int32)
            ends = ends[chunk.offset : chunk.offset + len(chunk) + 1]
            first, last = int(ends[0]), int(ends[-1])
            if self._size + last - first > _LONGEST_TEXT:
                raise TextsTooLongError
            self._ends[here.start + 1 : here.stop + 1] = ends[1:].astype(np.int64) + (
                self._size - first
            )
            self._write(chunk.buffers()[2], first, last)
        else:
            width = self._kind.bit_width // 8
            start = chunk.offset * width
            self._write(chunk.buffers()[1], start, start + len(chunk) * width)

    def _write(self, buffer: pa.Buffer | None, start: int, stop: int) -> None:
        if buffer is not None and stop > start:
            self._file.write(memoryview(buffer)[start:stop])
            self._size += stop - start

    def mapped(self) -> pa.Array:
        """All of them as one array; the file lasts as long as it does."""
        if len(self._bits):
            self._write(pa.py_buffer(_packed(self._bits)), 0, -(-self._rows // 8))
        self._file.write(bytes(-self._size % 8))
        ends_at = self._size + -self._size % 8
        self._file.write(self._ends)
        there_at = ends_at + self._ends.nbytes
        none_missing = bool(self._there.all())
        if not none_missing:
            self._file.write(_packed(self._there))
        self._file.flush()
        raw = pa.py_buffer(mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ))
        missing = None if none_missing else raw.slice(there_at)
        ends = [raw.slice(ends_at, self._ends.nbytes)] if len(self._ends) else []
        cells = raw.slice(0, self._size)
        return pa.Array.from_buffers(self._kind, self._rows, [missing, *ends, cells])


def _packed(bits: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Eight bits in a byte, as Arrow has them."""
    return np.packbits(bits, bitorder="little")
