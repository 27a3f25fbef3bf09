"""Frames: what passes between parties, as bytes; nothing here touches a socket.

A frame is four bytes that say it is one, a letter for its kind, its length, and so many bytes.
Each kind has a largest length, so that no peer decides how much memory we use; longer arrays go in
several frames, and their receiver knows how many bytes it waits for.
"""

from __future__ import annotations

import json
import struct
from typing import Any

from sherd.errors import PeerError

MARK = b"shrd"
MESSAGE, NUMBERS, ALIVE, STOP = b"m", b"n", b"a", b"s"
MOST = {MESSAGE: 1 << 26, NUMBERS: 1 << 23, ALIVE: 0, STOP: 1000}
"""The largest length of each kind, in bytes."""

MOST_VALUES = 1 << 22
"""The most values of a message: in memory a few bytes of JSON take dozens of times their room."""

_HEADER = struct.Struct(">4scQ")
HEADER = _HEADER.size
"""Bytes before a frame's content."""


def malformed(must: str) -> PeerError:
    """The error of bytes that are not what the protocol asks for."""
    return PeerError(
        "another party sent a message that cannot be read",
        must=must,
        do="check that all parties run the same version, then start all parties again",
    )


def frame(kind: bytes, content: bytes) -> bytes:
    """A frame of a kind.

    >>> read_header(frame(MESSAGE, b"{}")[:HEADER])
    (b'm', 2)
    """
    return _HEADER.pack(MARK, kind, len(content)) + content


def read_header(data: bytes) -> tuple[bytes, int]:
    """The kind of a frame and the length of its content."""
    mark, kind, length = _HEADER.unpack(data)
    if mark != MARK or kind not in MOST:
        raise malformed("a frame of a known kind")
    if length > MOST[kind]:
        raise malformed(f"at most {MOST[kind]} bytes in a frame of this kind")
    return kind, length


def pack(message: Any) -> bytes:
    """A message as bytes."""
    return json.dumps(message, sort_keys=True).encode()


def unpack(content: bytes) -> Any:
    """A message from bytes."""
    if sum(content.count(mark) for mark in (b",", b"[", b"{")) > MOST_VALUES:
        raise malformed(f"at most {MOST_VALUES} values in a message")
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        raise malformed("a message in JSON") from None
