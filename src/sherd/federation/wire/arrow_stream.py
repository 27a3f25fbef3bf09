"""Reading an Arrow stream that somebody else made.

Arrow's own reader checks the structure of what it reads, but it would also decompress: a few
bytes could ask for gigabytes. Deliveries are therefore uncompressed, and a look at every
message of the stream, before Arrow sees any, makes sure of it. Lengths are bounded by the
bytes that are there; a dictionary, whose one long label many cells can name, is bounded by
what its cells would take if they were written out, and is never written out here. Codes of numbers
and times are read in the one form that owners write (``sherd.tables.coded_columns``) and no other.

What a stream costs to read grows with its bytes and no faster. Each batch costs something, and
each look at a batch may be a look at its whole dictionary: so batches are not tiny, dictionaries
come once, before all records, and are not long beside what names their entries.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sherd.errors import PeerError
from sherd.federation.protocol.reasons import Reason
from sherd.tables.coded_columns import holds_numbers, is_coded

if TYPE_CHECKING:
    import mmap
    from collections.abc import Iterator

    import pyarrow as pa

MOST_COLUMNS = 10_000
MOST_MESSAGES = 100_000

MOST_PIECES = 1 << 18
"""The most batches times columns: each piece is an object of its own."""

FREE_BATCHES, BATCH_BYTES = 16, 4 << 10
"""The batches that a stream may have whatever its length, and its bytes for each further one.

Owners write 65,536 rows at once, which are 8 KiB of the smallest cells.
"""

FREE_LOOKS, MOST_LOOKS = 16 << 20, 8
"""The most bytes of dictionaries times batches, whatever a stream's length, and for each byte.

It is 4 for each byte where a column has as many values as codes can tell apart.
"""

_CONTINUATION = 0xFFFFFFFF
_SCHEMA, _DICTIONARY, _RECORDS = 1, 2, 3


def _wrong(what: str) -> PeerError:
    return PeerError(
        f"a delivered table cannot be read: {what}",
        must="an uncompressed Arrow stream",
        reason=Reason.VERIFICATION,
    )


def read_table(data: bytes | mmap.mmap, most: int) -> pa.Table:
    """The table in a stream, or PeerError; nothing is decompressed and no code is run.

    ``most`` is how many bytes its cells may take, labels written out.
    """
    import pyarrow as pa

    batches = _inspect(data)
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as stream:
            if not 0 < len(stream.schema) <= MOST_COLUMNS:
                raise _wrong("it has no columns, or too many")
            if batches * len(stream.schema) > MOST_PIECES:
                raise _wrong("it has too many batches of so many columns")
            _check_types(stream.schema)
            table = stream.read_all()
        table.validate()
        if _bytes_named(table) > len(data):
            raise _wrong("columns of it lie in the same bytes")
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        if isinstance(error, PeerError):
            raise
        raise _wrong("it is damaged") from None
    names = table.column_names
    if len(set(names)) != len(names):
        raise _wrong("two columns have one name")
    if written_out(table) > most:
        raise Reason.TOO_LARGE.error()
    for column in table.columns:
        if holds_numbers(column.type) and not is_coded(column):
            raise _wrong("a column's codes are not in the form that deliveries have")
    return table.replace_schema_metadata(None)


def _bytes_named(table: pa.Table) -> int:
    """The bytes of all columns, codes without their dictionaries; structure was validated."""
    import pyarrow as pa

    return sum(
        chunk.indices.nbytes if pa.types.is_dictionary(column.type) else chunk.nbytes
        for column in table.columns
        for chunk in column.chunks
    )


def written_out(table: pa.Table) -> int:
    """How many bytes a table's cells take, labels and other values written out."""
    return sum(_bytes_of(column) for column in table.columns)


def _bytes_of(column: pa.ChunkedArray) -> int:
    """How many bytes a column's cells take, labels written out."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    from sherd.tables.coding import nulls, numpy_array

    if not pa.types.is_dictionary(column.type):
        return int(column.nbytes)
    if holds_numbers(column.type):
        return len(column) * -(-int(column.type.value_type.bit_width) // 8)
    total = 0
    for chunk in column.chunks:
        if not len(chunk.dictionary):
            continue
        lengths = numpy_array(pc.fill_null(pc.binary_length(chunk.dictionary), 0))
        times = np.bincount(numpy_array(chunk.indices)[~nulls(chunk.indices)])
        total += int(times.astype(object) @ lengths[: len(times)].astype(object))
    return total + 4 * len(column)


def _check_types(schema: pa.Schema) -> None:
    """Refuse columns that are not plain: no release has nested or extension types."""
    import pyarrow as pa

    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        plain = (
            pa.types.is_integer(kind)
            or pa.types.is_floating(kind)
            or pa.types.is_decimal(kind)
            or pa.types.is_boolean(kind)
            or pa.types.is_date(kind)
            or pa.types.is_timestamp(kind)
            or pa.types.is_string(kind)
            or pa.types.is_large_string(kind)
        )
        if not plain:
            raise _wrong("a column is of a type that no release has")


def _inspect(data: bytes | mmap.mmap) -> int:
    """Refuse a stream that would cost more than its bytes; how many batches it has."""
    batches, listed = 0, 0
    seen: set[int] = set()
    for message in _messages(data):
        batches += message.kind == _RECORDS
        if message.kind != _DICTIONARY:
            continue
        if batches or message.delta or message.dictionary in seen:
            raise _wrong("a dictionary does not come once and first")
        seen.add(message.dictionary)
        listed += message.body
    if batches > FREE_BATCHES + len(data) // BATCH_BYTES:
        raise _wrong("its batches are too small")
    if batches * listed > FREE_LOOKS + MOST_LOOKS * len(data):
        raise _wrong("its dictionaries are too long for its batches")
    return batches


def _messages(data: bytes | mmap.mmap) -> Iterator[_Message]:
    """The stream's messages: whole, known, bounded, uncompressed."""
    place, count = 0, 0
    while True:
        if place + 8 > len(data):
            raise _wrong("it is cut off")
        marker, length = struct.unpack_from("<Ii", data, place)
        if marker != _CONTINUATION or length < 0:
            raise _wrong("it is not a stream")
        if length == 0:
            if place + 8 != len(data):
                raise _wrong("something follows its end")
            return
        count += 1
        start = place + 8
        if count > MOST_MESSAGES or start + length > len(data):
            raise _wrong("it is cut off")
        try:
            message = _message(data[start : start + length])
        except (struct.error, IndexError):
            raise _wrong("it is damaged") from None
        kind, body = message.kind, message.body
        if message.packed:
            raise _wrong("it is compressed")
        if message.foreign:
            raise _wrong("its numbers are written the other way round")
        if kind not in (_SCHEMA, _DICTIONARY, _RECORDS) or (kind == _SCHEMA) != (count == 1):
            raise _wrong("it holds what no stream of a table holds")
        if body < 0 or start + length + body > len(data):
            raise _wrong("it is cut off")
        yield message
        place = start + length + body


# The little of FlatBuffers that is needed: tables find their fields through a vtable.


@dataclass(frozen=True, kw_only=True)
class _Message:
    """A message's kind, the length of its body, and whether the body is compressed.

    ``dictionary`` is the number of the one that it holds, which it may only add to (``delta``);
    ``foreign`` says that numbers have their most significant byte first.
    """

    kind: int
    body: int
    packed: bool = False
    dictionary: int = 0
    delta: bool = False
    foreign: bool = False


def _message(meta: bytes) -> _Message:
    table = _follow(meta, 0)
    kind_at, header_at, body_at = (_field(meta, table, slot) for slot in (1, 2, 3))
    kind = 0 if kind_at is None else meta[kind_at]
    body = 0 if body_at is None else struct.unpack_from("<q", meta, body_at)[0]
    if header_at is None:
        raise _wrong("it is damaged")
    header = _follow(meta, header_at)
    if kind == _SCHEMA:
        order_at = _field(meta, header, 0)
        foreign = order_at is not None and meta[order_at : order_at + 2] != bytes(2)
        return _Message(kind=kind, body=body, foreign=foreign)
    if kind != _DICTIONARY:
        packed = kind == _RECORDS and _field(meta, header, 3) is not None
        return _Message(kind=kind, body=body, packed=packed)
    number_at, batch_at, delta_at = (_field(meta, header, slot) for slot in (0, 1, 2))
    if batch_at is None:
        raise _wrong("it is damaged")
    return _Message(
        kind=kind,
        body=body,
        packed=_field(meta, _follow(meta, batch_at), 3) is not None,
        dictionary=0 if number_at is None else struct.unpack_from("<q", meta, number_at)[0],
        delta=delta_at is not None and meta[delta_at] != 0,
    )


def _follow(meta: bytes, place: int) -> int:
    return place + int(struct.unpack_from("<I", meta, place)[0])


def _field(meta: bytes, table: int, slot: int) -> int | None:
    vtable = table - struct.unpack_from("<i", meta, table)[0]
    if vtable < 0:
        raise _wrong("it is damaged")
    size = struct.unpack_from("<H", meta, vtable)[0]
    offset = 4 + 2 * slot
    if offset + 2 > size:
        return None
    relative = struct.unpack_from("<H", meta, vtable + offset)[0]
    return table + relative if relative else None
