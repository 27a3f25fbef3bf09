"""The headers of the messages in Arrow's formats, read without reading what they announce.

Streams and files of Arrow (Feather) are messages: a schema, dictionaries, record batches. Each has
a header in FlatBuffers, which lies unpacked and says how long its body is, which of the body's
bytes are whose, and whether they are compressed. Whoever made the bytes may have put anything
there: what lies outside of the bytes, or is of a form that no writer of today has, is refused.

Notation of the format (Message.fbs, Schema.fbs): a *buffer* is one array of bytes of a column; a
*node* is the length of a column. A table of FlatBuffers finds its fields, numbered by *slots*,
through its vtable.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import FormatError

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Raw = bytes | mmap.mmap

SCHEMA, DICTIONARY, RECORDS = 1, 2, 3
"""The kinds of messages that a table is written as."""

MOST_HEADER = 16 << 20
"""Bytes of a message's header, or of a footer: 100,000 columns or batches."""

_CONTINUATION = 0xFFFFFFFF
_VERSION = 4
_SHORTEST_FIELD = 8
_DEEPEST = 32
_TIMESTAMP, _UNION = 10, 14
_MAGIC = b"ARROW1"
_BLOCK = "<qi4xq"


def _wrong(what: str) -> FormatError:
    return FormatError(what, must="whole messages of Arrow's format")


@dataclass(frozen=True, kw_only=True)
class ArrowMessage:
    """A message's kind, the length of its body, where the body begins, and what its header says.

    ``dictionary`` is the number of the one that it holds, which it may only add to (``delta``);
    ``foreign`` says that numbers have their most significant byte first; ``rows`` is how many rows
    a batch says it has, of records or of a dictionary's values.
    """

    kind: int
    body: int
    start: int
    header: bytes
    packed: bool = False
    dictionary: int = 0
    delta: bool = False
    foreign: bool = False
    rows: int = 0
    batch_at: int = 0

    @property
    def end(self) -> int:
        """Where the message ends."""
        return self.start + self.body

    @cached_property
    def nodes(self) -> NDArray[np.int64]:
        """The length of each column, and how many of its cells are missing."""
        return _pairs(self.header, self.batch_at, 1)

    @cached_property
    def buffers(self) -> NDArray[np.int64]:
        """Where in the body each buffer begins, and how long it is there."""
        return _pairs(self.header, self.batch_at, 2)

    def unpacked(self, raw: Raw) -> int:
        """How many bytes the buffers of a batch take together once they are unpacked.

        A compressed buffer begins with its length unpacked; −1 says that it is stored as it is.
        """
        total = 0
        for offset, length in self.buffers.tolist():
            if offset < 0 or length < 0 or offset + length > self.body:
                raise _wrong("a column lies outside of its batch")
            size = length
            if self.packed and length:
                if length < 8:
                    raise _wrong("a compressed column does not say how long it is")
                size = struct.unpack_from("<q", raw, self.start + offset)[0]
                if size == -1:
                    size = length - 8
                elif size < 0:
                    raise _wrong("a compressed column is of negative length")
            total += size
        return total


def messages(raw: Raw) -> Iterator[ArrowMessage]:
    """The messages of a stream, whole and known; the schema's comes first, the end last."""
    place = count = 0
    while True:
        if place + 8 > len(raw):
            raise _wrong("it is cut off")
        marker, length = struct.unpack_from("<Ii", raw, place)
        if marker != _CONTINUATION or length < 0:
            raise _wrong("it is not a stream")
        if length == 0:
            if place + 8 != len(raw):
                raise _wrong("something follows its end")
            return
        count += 1
        message = message_at(raw, place)
        known = (SCHEMA, DICTIONARY, RECORDS)
        if message.kind not in known or (message.kind == SCHEMA) != (count == 1):
            raise _wrong("it holds what no stream of a table holds")
        yield message
        place = message.end


def message_at(raw: Raw, place: int) -> ArrowMessage:
    """The message that begins at a place, whole."""
    if not 0 <= place <= len(raw) - 8:
        raise _wrong("it is cut off")
    marker, length = struct.unpack_from("<Ii", raw, place)
    start = place + 8 + length
    if marker != _CONTINUATION or length <= 0 or start > len(raw):
        raise _wrong("it is cut off")
    if length > MOST_HEADER:
        raise _wrong("what it says of itself is too long")
    try:
        message = _message(raw[place + 8 : start], start)
    except (struct.error, IndexError):
        raise _wrong("it is damaged") from None
    if message.body < 0 or message.end > len(raw):
        raise _wrong("it is cut off")
    return message


def _message(header: bytes, start: int) -> ArrowMessage:
    table = _follow(header, 0)
    version_at, kind_at, header_at, _, told_at = (_field(header, table, n) for n in range(5))
    version = 0 if version_at is None else struct.unpack_from("<h", header, version_at)[0]
    # In the version before, a batch could be compressed by what is told beside it alone.
    if version != _VERSION or told_at is not None:
        raise _wrong("it is not of the form in which tables are written")
    kind = 0 if kind_at is None else header[kind_at]
    body = _number(header, table, 3)
    if header_at is None:
        raise _wrong("it is damaged")
    of_kind = _follow(header, header_at)
    if kind == SCHEMA:
        order_at = _field(header, of_kind, 0)
        foreign = order_at is not None and header[order_at : order_at + 2] != bytes(2)
        check_schema(header, of_kind)
        return ArrowMessage(kind=kind, body=body, start=start, header=header, foreign=foreign)
    if kind != DICTIONARY:
        if kind != RECORDS:
            return ArrowMessage(kind=kind, body=body, start=start, header=header)
        return ArrowMessage(
            kind=kind,
            body=body,
            start=start,
            header=header,
            packed=_field(header, of_kind, 3) is not None,
            rows=_number(header, of_kind, 0),
            batch_at=of_kind,
        )
    records_at, delta_at = (_field(header, of_kind, slot) for slot in (1, 2))
    if records_at is None:
        raise _wrong("it is damaged")
    batch_at = _follow(header, records_at)
    return ArrowMessage(
        kind=kind,
        body=body,
        start=start,
        header=header,
        packed=_field(header, batch_at, 3) is not None,
        dictionary=_number(header, of_kind, 0),
        delta=delta_at is not None and header[delta_at] != 0,
        rows=_number(header, batch_at, 0),
        batch_at=batch_at,
    )


@dataclass(frozen=True, kw_only=True)
class Footer:
    """What a file says of itself behind its messages: where they lie.

    A block is where a message begins, how long its header is and how long its body.
    """

    start: int
    dictionaries: bytes
    batches: bytes


def is_file(raw: Raw) -> bool:
    """Whether bytes are those of an Arrow file, and not of a stream, by how they begin."""
    return raw[: len(_MAGIC)] == _MAGIC


def footer_of(raw: Raw) -> Footer:
    """The footer of a file; its blocks are not yet compared with what they point at."""
    end = len(raw) - len(_MAGIC) - 4
    if end < len(_MAGIC) or raw[end + 4 :] != _MAGIC:
        raise _wrong("it is cut off")
    start = end - int(struct.unpack_from("<i", raw, end)[0])
    if not len(_MAGIC) < start < end:
        raise _wrong("it is cut off")
    if end - start > MOST_HEADER:
        raise _wrong("what it says of itself is too long")
    given = bytes(raw[start:end])
    try:
        table = _follow(given, 0)
        schema_at = _field(given, table, 1)
        if schema_at is None:
            raise _wrong("it is damaged")
        check_schema(given, _follow(given, schema_at), _told(given, table, 4))
        return Footer(
            start=start, dictionaries=_blocks(given, table, 2), batches=_blocks(given, table, 3)
        )
    except (struct.error, IndexError):
        raise _wrong("it is damaged") from None


def _blocks(given: bytes, table: int, slot: int) -> bytes:
    width = struct.calcsize(_BLOCK)
    at, count = _vector(given, table, slot, width)
    return given[at : at + width * count]


def block_messages(raw: Raw, footer: Footer) -> Iterator[ArrowMessage]:
    """The messages that a file's footer names: each as it says, one behind the other."""
    for kind, blocks in ((DICTIONARY, footer.dictionaries), (RECORDS, footer.batches)):
        end = 0
        for place, header, body in struct.iter_unpack(_BLOCK, blocks):
            message = message_at(raw, place)
            told = (message.kind, message.start - place, message.body)
            if told != (kind, header, body) or place < end or message.end > footer.start:
                raise _wrong("its footer says something else than its messages")
            end = message.end
            yield message


def check_schema(given: bytes, schema: int, told: int = 0) -> None:
    """Refuse a schema that takes more than its bytes: parts of it can be named many times.

    ``told`` is what is read beside it from the same bytes.
    """
    room = len(given) - told - _told(given, schema, 2)
    waiting = [(at, 1) for at in _tables(given, schema, 1)]
    while waiting:
        field, depth = waiting.pop()
        room -= _SHORTEST_FIELD + _text(given, field, 0) + _told(given, field, 6)
        kind_at, type_at = (_field(given, field, slot) for slot in (2, 3))
        kind = 0 if kind_at is None else given[kind_at]
        if type_at is not None and kind in (_TIMESTAMP, _UNION):  # a time zone, or numbers
            room -= _text(given, _follow(given, type_at), 1)
        if room < 0 or depth > _DEEPEST:
            raise _wrong("its schema takes more than its bytes")
        waiting += [(at, depth + 1) for at in _tables(given, field, 5)]
        if len(waiting) * _SHORTEST_FIELD > len(given):
            raise _wrong("its schema takes more than its bytes")


def _told(given: bytes, table: int, slot: int) -> int:
    """The bytes of names and values that stand beside something."""
    total = 0
    for pair in _tables(given, table, slot):
        total += _text(given, pair, 0) + _text(given, pair, 1) + _SHORTEST_FIELD
        if total > len(given):
            raise _wrong("its schema takes more than its bytes")
    return total


def _text(given: bytes, table: int, slot: int) -> int:
    return _vector(given, table, slot, 1)[1]


def _tables(given: bytes, table: int, slot: int) -> list[int]:
    at, count = _vector(given, table, slot, 4)
    return [_follow(given, at + 4 * number) for number in range(count)]


def _pairs(given: bytes, table: int, slot: int) -> NDArray[np.int64]:
    try:
        at, count = _vector(given, table, slot, 16)
    except (struct.error, IndexError):
        raise _wrong("it is damaged") from None
    return np.frombuffer(given[at : at + 16 * count], "<i8").reshape(-1, 2)


def _vector(given: bytes, table: int, slot: int, width: int) -> tuple[int, int]:
    """Where the entries of a vector begin, and how many there are; none if it is not there."""
    field = _field(given, table, slot)
    if field is None:
        return 0, 0
    at = _follow(given, field)
    count = int(struct.unpack_from("<I", given, at)[0])
    if at + 4 + count * width > len(given):
        raise _wrong("it is damaged")
    return at + 4, count


def _number(given: bytes, table: int, slot: int) -> int:
    at = _field(given, table, slot)
    return 0 if at is None else int(struct.unpack_from("<q", given, at)[0])


def _follow(given: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", given, place)[0])


def _field(given: bytes, table: int, slot: int) -> int | None:
    vtable = table - struct.unpack_from("<i", given, table)[0]
    if vtable < 0:
        raise _wrong("it is damaged")
    size = struct.unpack_from("<H", given, vtable)[0]
    offset = 4 + 2 * slot
    if offset + 2 > size:
        return None
    relative = struct.unpack_from("<H", given, vtable + offset)[0]
    return table + relative if relative else None
