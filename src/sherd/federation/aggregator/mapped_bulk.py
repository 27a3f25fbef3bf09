"""Bulk that owners sent, in files without names that are mapped: never whole in memory."""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import shutil
from typing import IO, TYPE_CHECKING

from sherd.errors import PeerError, StorageError, VerificationError
from sherd.federation.protocol.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

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
        raise PeerError("an attachment is not what was announced", reason=Reason.MALFORMED)


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
