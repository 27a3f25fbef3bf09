"""Shares that are opened, as bytes: byte strings behind their lengths, never pickled.

>>> unframed(framed([b"meta", b"chunk"]))
[b'meta', b'chunk']
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from sherd.errors import ConnectionFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence


def framed(parts: Sequence[bytes]) -> bytes:
    """Byte strings behind their lengths."""
    return b"".join(struct.pack(">Q", len(part)) + part for part in parts)


def unframed(frame: bytes) -> list[bytes]:
    """The byte strings of a frame, or an error where it is malformed."""
    parts, place = [], 0
    while place + 8 <= len(frame):
        (length,) = struct.unpack_from(">Q", frame, place)
        place += 8
        if length > len(frame) - place:
            break
        parts.append(frame[place : place + length])
        place += length
    else:
        if place == len(frame) and len(parts) >= 2:
            return parts
    raise unreadable("framed shares")


def unreadable(must: str) -> ConnectionFailedError:
    """What is said of bytes that are not the shares that are due."""
    return ConnectionFailedError(
        "another party sent a message that cannot be read",
        must=must,
        do="check that all parties run the same version",
    )
