"""Bulk that owners sent, in files without names that are mapped: never whole in memory.

Columns of a release that is put together lie in mapped files, too, one after another. Deliveries
come in batches, and rows leave in another order. Each column is written to a file of its own as
batches come, cell after cell, and is then taken from by places. Mapped pages belong to their files,
which have no names: the system takes the pages back when it needs room, and nothing is left when
the process ends. What is held in memory is a batch, or the rows that are taken.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import shutil
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sherd.errors import StorageError, VerificationError
from sherd.federation.protocol.reasons import Reason
from sherd.tables.coding import arrow_array, nulls, numpy_array
from sherd.tables.released_form import released_form
from sherd.verifying.arrow_files import written_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from sherd.engines.mapped_columns import MappedColumns
    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.protocol.linkage import Buffer
    from sherd.federation.protocol.messages import Attachment


@contextlib.contextmanager
def scratch_of(aggregator: Aggregator, round_id: str) -> Iterator[MappedColumns]:
    """A folder for a round's files while something is computed; a dead run's is cleared away."""
    from sherd.engines.mapped_columns import MappedColumns

    place = aggregator.releases / f".{round_id}.scratch"
    try:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.closing(MappedColumns(place)) as scratch:
            yield scratch
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(
            "a round's files cannot be written",
            got=f"{aggregator.releases}: {error.strerror or 'the disk failed'}",
            do="make room there; it will be tried again",
        ) from None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def chunks_of(aggregator: Aggregator, round_id: str, attachment: Attachment) -> Iterator[bytes]:
    """The chunks of bulk that came, in order; PeerError at the end if it is not what was said."""
    whole, size = hashlib.sha256(), 0
    for sha256 in attachment.chunks:
        chunk = aggregator.store.chunk(round_id, sha256)
        if chunk is None:
            raise VerificationError("a chunk that was received is gone")
        whole.update(chunk)
        size += len(chunk)
        yield chunk
    if size != attachment.size or whole.hexdigest() != attachment.sha256:
        raise Reason.MALFORMED.error("an attachment does not match its announcement")


def mapped(scratch: MappedColumns, pieces: Iterable[bytes]) -> Buffer:
    """Bytes that come in pieces, as a mapped file that holds them all."""
    file = scratch.nameless_file()
    for piece in pieces:
        file.write(piece)
    return map_file(file)


def map_file(file: IO[bytes]) -> Buffer:
    """What was written into a file, mapped; the file is closed."""
    with file:
        size = file.tell()
        file.flush()
        return mmap.mmap(file.fileno(), size, access=mmap.ACCESS_READ) if size else b""


BATCH_BYTES = 8 << 20
"""About how many bytes of a delivered table are looked at in one go."""


def common_type(kinds: Sequence[pa.DataType]) -> pa.DataType:
    """The type of a released column whose parts come from several owners.

    >>> common_type([pa.int64(), pa.float64()])
    DataType(double)
    """
    distinct = set(kinds)
    if len(distinct) == 1:
        return kinds[0]
    if distinct == {pa.int64(), pa.float64()}:
        return pa.float64()
    if all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in distinct):
        return next(kind for kind in kinds if pa.types.is_timestamp(kind))
    raise VerificationError("the deliveries' columns have incompatible types")


def released_batches(table: pa.Table) -> Iterator[pa.Table]:
    """A table's rows in released form, a few at a time and never across its own batches."""
    rows = max(1, BATCH_BYTES // max(1, written_out(table) // max(1, table.num_rows)))
    for batch in table.to_batches(max_chunksize=rows):
        yield released_form(pa.Table.from_batches([batch]))


class FlatColumn:
    """One column of so many rows, of numbers, times or truths; filled once, then taken from."""

    def __init__(self, scratch: MappedColumns, kind: pa.DataType, rows: int) -> None:
        self.kind = kind
        self._rows, self._filled = rows, 0
        self._scratch = scratch
        self._gaps: NDArray[np.bool_] | None = None
        self._stored = {pa.date32(): pa.int32()}.get(kind, kind)
        if pa.types.is_timestamp(kind):
            self._stored = pa.int64()
        self._cells: Any = None
        if not pa.types.is_string(kind):
            word = "bool" if pa.types.is_boolean(kind) else str(self._stored)
            self._cells = scratch.mapped_array(rows, np.dtype(word))

    def add(self, cells: pa.ChunkedArray) -> None:
        """Append cells to the column."""
        for chunk in cells.cast(self.kind).chunks:
            end = self._filled + len(chunk)
            if end > self._rows:
                raise VerificationError("a column has more rows than were announced")
            if chunk.null_count:
                if self._gaps is None:
                    self._gaps = self._scratch.mapped_array(self._rows, np.bool_)
                self._gaps[self._filled : end] = nulls(chunk)
            self._put(chunk, end)
            self._filled = end

    def _put(self, chunk: pa.Array, end: int) -> None:
        plain = chunk if self._stored == chunk.type else chunk.view(self._stored)
        self._cells[self._filled : end] = numpy_array(plain)

    def take(self, places: NDArray[Any]) -> pa.Array:
        """The cells at so many places."""
        if self._filled != self._rows:
            raise VerificationError("a column has fewer rows than were announced")
        gaps = None if self._gaps is None else self._gaps[places]
        return self._taken(places, None if gaps is None or not gaps.any() else gaps)

    def _taken(self, places: NDArray[Any], gaps: NDArray[np.bool_] | None) -> pa.Array:
        cells = self._cells[places]
        if gaps is not None:
            cells = np.where(gaps, np.zeros(1, cells.dtype), cells)
        return arrow_array(cells, gaps).view(self.kind)


class FlatTexts(FlatColumn):
    """One column of texts, one after another in a file, beside where each ends."""

    def __init__(self, scratch: MappedColumns, kind: pa.DataType, rows: int) -> None:
        super().__init__(scratch, kind, rows)
        self._ends = scratch.mapped_array(rows + 1, np.int64)
        self._file = scratch.nameless_file()
        self._size = 0
        self._whole: pa.Array | None = None

    def _put(self, chunk: pa.Array, end: int) -> None:
        _, offsets, data = chunk.buffers()
        ends = np.frombuffer(offsets, np.int32, len(chunk) + 1, chunk.offset * 4).astype(np.int64)
        self._ends[self._filled + 1 : end + 1] = self._size + ends[1:] - ends[0]
        if data is not None:
            self._file.write(memoryview(data)[int(ends[0]) : int(ends[-1])])
        self._size += int(ends[-1] - ends[0])

    def _taken(self, places: NDArray[Any], gaps: NDArray[np.bool_] | None) -> pa.Array:
        if self._whole is None:
            buffers = [None, pa.py_buffer(self._ends), pa.py_buffer(map_file(self._file))]
            self._whole = pa.Array.from_buffers(pa.large_string(), self._rows, buffers)
        taken = self._whole.take(arrow_array(places)).cast(pa.string())
        if gaps is None:
            return taken
        bits = pa.py_buffer(np.packbits(~gaps, bitorder="little"))
        return pa.Array.from_buffers(pa.string(), len(taken), [bits, *taken.buffers()[1:]])


def flat_column(scratch: MappedColumns, kind: pa.DataType, rows: int) -> FlatColumn:
    """A column to fill, of a released type."""
    made = FlatTexts if pa.types.is_string(kind) else FlatColumn
    return made(scratch, kind, rows)
