"""One exchange between an owner and the aggregator: messages there, answers and messages back.

A request holds envelopes, the small attachments they announce, and how far the owner has
read; the answer says of every envelope whether it was taken and what it still lacks, and
brings the messages that came. So an owner sends and waits for the next word in one request.

On the wire: the length of a header, the header as canonical JSON, and the parts it counts,
one after the other, as they are.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.federation.protocol.messages import CHUNK, MOST_BYTES, check_hash
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.envelope import parse
from sherd.values import canonical_text, from_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from sherd.errors import PeerError

MOST_AT_ONCE = 16
"""The most messages of one exchange."""

MOST_PARTS = MOST_BYTES
"""The most bytes of messages and attachments together; larger attachments come in chunks."""

MOST_WAIT = 30.0
MOST_REQUEST = MOST_PARTS + (900 << 10)
"""With the header, which says how far the owner has read: below 5 MB in all."""
MOST_SEEN = 10_000
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """An envelope and chunks that travel with it: all that it announces, some of them, or none.

    Chunks that came are views of the request, which is not copied for them.
    """

    round: str
    raw: bytes
    chunks: tuple[bytes | memoryview, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Call:
    """What an owner sends, the last message it saw in each round, and how long it would wait.

    Without ``seen`` it wants no messages.
    """

    parcels: tuple[Parcel, ...]
    seen: Mapping[str, int] | None
    wait: float


@dataclass(frozen=True, kw_only=True)
class ParcelAnswer:
    """What became of a message that was sent: why it was refused, or what it still lacks."""

    reason: Reason | None = None
    wanted: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for sha256 in self.wanted:
            check_hash(sha256)


@dataclass(frozen=True, kw_only=True)
class Exchanged:
    """The answers to what was sent, in order, and the messages that came."""

    answers: tuple[ParcelAnswer, ...]
    messages: tuple[bytes, ...]


@dataclass(frozen=True, kw_only=True)
class _Listed:
    round: str
    size: int
    chunks: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class _Request:
    messages: tuple[_Listed, ...]
    seen: dict[str, int] | None
    milliseconds: int


@dataclass(frozen=True, kw_only=True)
class _Response:
    answers: tuple[ParcelAnswer, ...]
    sizes: tuple[int, ...]


def _wrong(what: str) -> PeerError:
    return Reason.MALFORMED.error(f"an exchange is not valid: {what}")


def _headed(header: Any, parts: Iterable[bytes | memoryview]) -> list[bytes | memoryview]:
    written = canonical_text(header).encode("ascii")
    return [_LENGTH.pack(len(written)) + written, *parts]


def _split(raw: bytes, kind: type[Any]) -> tuple[Any, memoryview]:
    if len(raw) < _LENGTH.size:
        raise _wrong("it is cut off")
    end = _LENGTH.size + _LENGTH.unpack_from(raw)[0]
    if end > len(raw):
        raise _wrong("it is cut off")
    header = from_data(kind, parse(raw[_LENGTH.size : end], most=MOST_BYTES))
    return header, memoryview(raw)[end:]


def _cut(parts: memoryview, sizes: Sequence[int]) -> list[memoryview]:
    if any(size < 0 for size in sizes) or sum(sizes) != len(parts):
        raise _wrong("its parts are not of the sizes announced")
    cut, place = [], 0
    for size in sizes:
        cut.append(parts[place : place + size])
        place += size
    return cut


def write_request(call: Call) -> bytes:
    """A request as it travels."""
    return b"".join(request_parts(call))


def request_parts(call: Call) -> list[bytes | memoryview]:
    """A request as it travels, in parts that need not be laid together before."""
    header = _Request(
        messages=tuple(
            _Listed(round=p.round, size=len(p.raw), chunks=tuple(len(c) for c in p.chunks))
            for p in call.parcels
        ),
        seen=None if call.seen is None else dict(call.seen),
        milliseconds=int(call.wait * 1000),
    )
    return _headed(header, (part for p in call.parcels for part in (p.raw, *p.chunks)))


def read_request(raw: bytes) -> Call:
    """A request that travelled; PeerError where it is anything else."""
    header, rest = _split(raw, _Request)
    listed: tuple[_Listed, ...] = header.messages
    seen = header.seen or {}
    if len(listed) > MOST_AT_ONCE or len(seen) > MOST_SEEN:
        raise _wrong("it is too long")
    if any(not 0 <= number < 2**31 for number in seen.values()):
        raise _wrong("a message's number is out of range")
    if not 0 <= header.milliseconds <= MOST_WAIT * 1000:
        raise _wrong("it would wait too long")
    if any(size > CHUNK for each in listed for size in each.chunks):
        raise Reason.TOO_LARGE.error()
    parts = iter(_cut(rest, [size for each in listed for size in (each.size, *each.chunks)]))
    parcels = tuple(
        Parcel(
            round=each.round,
            raw=bytes(next(parts)),
            chunks=tuple(next(parts) for _ in each.chunks),
        )
        for each in listed
    )
    return Call(parcels=parcels, seen=header.seen, wait=header.milliseconds / 1000)


def write_response(exchanged: Exchanged) -> bytes:
    """An answer as it travels."""
    sizes = tuple(len(message) for message in exchanged.messages)
    header = _Response(answers=exchanged.answers, sizes=sizes)
    return b"".join(_headed(header, exchanged.messages))


def read_response(raw: bytes, sent: int) -> Exchanged:
    """The answer to so many messages; PeerError where it is anything else."""
    header, rest = _split(raw, _Response)
    if len(header.answers) != sent:
        raise _wrong("it does not answer every message")
    return Exchanged(
        answers=header.answers, messages=tuple(bytes(part) for part in _cut(rest, header.sizes))
    )
