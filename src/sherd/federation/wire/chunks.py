"""Bulk in chunks that are found by their hash."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from sherd.federation.protocol.messages import CHUNK, Attachment
from sherd.federation.protocol.reasons import Reason

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterator
    from pathlib import Path


def describe(data: bytes | mmap.mmap) -> Attachment:
    """The announcement of bulk in memory, or in a mapped file.

    >>> len(describe(b"x" * (CHUNK + 1)).chunks)
    2
    """
    chunks = (data[start : start + CHUNK] for start in range(0, len(data), CHUNK))
    return Attachment(
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        chunks=tuple(hashlib.sha256(chunk).hexdigest() for chunk in chunks),
    )


def describe_file(path: Path, *, sha256: str | None = None) -> Attachment:
    """The announcement of a file, read a chunk at a time; of one whose hash is known, or not.

    A file of one chunk whose hash is known is not read: both hashes are the same.
    """
    whole, size, chunks = hashlib.sha256(), 0, []
    length = path.stat().st_size
    single = length <= CHUNK
    if single and length and sha256 is not None:
        return Attachment(sha256=sha256, size=length, chunks=(sha256,))
    for chunk in pieces(path):
        if sha256 is None and not single:
            whole.update(chunk)
        size += len(chunk)
        chunks.append(hashlib.sha256(chunk).hexdigest())
    if sha256 is None:
        sha256 = chunks[0] if len(chunks) == 1 and single else whole.hexdigest()
    return Attachment(sha256=sha256, size=size, chunks=tuple(chunks))


def pieces(path: Path) -> Iterator[bytes]:
    """A file's chunks."""
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            yield chunk


def check_chunk(sha256: str, data: bytes) -> None:
    """Refuse a chunk that is too large or not what its name says."""
    if len(data) > CHUNK:
        raise Reason.TOO_LARGE.error()
    if hashlib.sha256(data).hexdigest() != sha256:
        raise Reason.MALFORMED.error("a chunk does not match its hash")


def gather(attachment: Attachment, chunk: Callable[[str], bytes]) -> bytes:
    """Bulk put together from its chunks, checked."""
    data = b"".join(chunk(sha256) for sha256 in attachment.chunks)
    if len(data) != attachment.size or hashlib.sha256(data).hexdigest() != attachment.sha256:
        raise Reason.MALFORMED.error("an attachment does not match its announcement")
    return data
