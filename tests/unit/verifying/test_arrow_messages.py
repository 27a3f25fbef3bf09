"""Headers of Arrow's messages are read to their end, or refused."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import FormatError
from sherd.verifying import arrow_messages
from sherd.verifying.arrow_messages import (
    DICTIONARY,
    RECORDS,
    SCHEMA,
    block_messages,
    footer_of,
    is_file,
    message_at,
    messages,
)

ROWS = 1000
TABLE = pa.table(
    {
        "number": np.arange(ROWS) / 3,
        "label": pa.array(["a", "bcd"] * (ROWS // 2)).dictionary_encode(),
        "text": [f"{i:07d}" for i in range(ROWS)],
        "time": pa.array(range(ROWS), pa.timestamp("us", "UTC")),
    }
)


def _written(make: Any, table: pa.Table = TABLE, **options: Any) -> bytes:
    sink = io.BytesIO()
    with make(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table, max_chunksize=600)
    return sink.getvalue()


FILE = _written(pa.ipc.new_file, compression="zstd")
STREAM = _written(pa.ipc.new_stream)


@pytest.mark.parametrize("compression", [None, "zstd", "lz4"])
def test_headers_say_what_arrow_reads(compression: str | None) -> None:
    """Rows, compression and unpacked lengths, of a file and of a stream."""
    stream = _written(pa.ipc.new_stream, compression=compression)
    told = list(messages(stream))
    assert [one.kind for one in told] == [SCHEMA, DICTIONARY, RECORDS, RECORDS]
    file = _written(pa.ipc.new_file, compression=compression)
    assert is_file(file)
    assert not is_file(stream)
    named = list(block_messages(file, footer_of(file)))
    assert [one.kind for one in named] == [DICTIONARY, RECORDS, RECORDS]
    for raw, batches in ((stream, told[2:]), (file, named[1:])):
        assert [one.rows for one in batches] == [600, 400]
        assert [one.nodes[:, 0].tolist() for one in batches] == [[600] * 4, [400] * 4]
        assert {one.packed for one in batches} == {compression is not None}
        for one in batches:
            cells = one.rows * (8 + 4 + 4 + 7 + 8) + 4
            assert cells <= one.unpacked(raw) <= cells + 64 * len(one.buffers)


def _refused(raw: bytes, why: str) -> None:
    with pytest.raises(FormatError, match=why):
        _add_up(raw)


def _add_up(raw: bytes) -> int:
    named = block_messages(raw, footer_of(raw)) if is_file(raw) else messages(raw)
    return sum(message.unpacked(raw) for message in named if message.kind != SCHEMA)


def _block(place: int, header: int, body: int) -> bytes:
    return struct.pack("<qi4xq", place, header, body)


def _blocks() -> list[bytes]:
    footer = footer_of(FILE)
    told = list(struct.iter_unpack("<qi4xq", footer.dictionaries + footer.batches))
    return [_block(*one) for one in told]


@pytest.mark.parametrize("start", [-8, 0, 1 << 40, "of another", "within another"])
def test_a_block_lies_where_its_message_is(start: int | str) -> None:
    """Outside of the file, where none begins, on another one, within the bytes of another."""
    first, last = _blocks()[-2:]
    _, header, body = struct.unpack("<qi4xq", last)
    if start == "of another":
        lie = first
    elif start == "within another":
        lie = _block(struct.unpack("<qi4xq", first)[0] + 8, header, body)
    else:
        assert isinstance(start, int)
        lie = _block(start, header, body)
    assert FILE.count(last) == 1
    _refused(FILE.replace(last, lie), r"cut off|something else")


@pytest.mark.parametrize("more", [(8, 0), (-8, 0), (0, 8), (0, -8), (0, -(1 << 62)), (1 << 30, 0)])
def test_a_block_is_as_long_as_its_message(more: tuple[int, int]) -> None:
    """Arrow would take room for as much as the footer says."""
    last = _blocks()[-1]
    place, header, body = struct.unpack("<qi4xq", last)
    lie = _block(place, header + more[0], body + more[1])
    _refused(FILE.replace(last, lie), "something else")


def test_a_footer_is_there() -> None:
    """Whole, at the end, of a length that fits."""
    _refused(FILE[:-1], "cut off")
    _refused(FILE[:9], "cut off")
    for length in (0, -1, len(FILE), 1 << 30):
        _refused(FILE[:-10] + struct.pack("<i", length) + b"ARROW1", "cut off")
    _refused(FILE[:-10] + struct.pack("<i", 8) + b"ARROW1", r"damaged|cut off")


def test_long_headers_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header or a footer that is longer than any release's is not looked into."""
    monkeypatch.setattr(arrow_messages, "MOST_HEADER", 100)
    _refused(FILE, "too long")
    _refused(STREAM, "too long")


def test_buffers_lie_in_their_batch() -> None:
    """Before it, behind it, of negative length, too short for what a compressed one says first."""
    for make, packed in ((pa.ipc.new_stream, None), (pa.ipc.new_file, "zstd")):
        raw = _written(make, TABLE.select(["number"]), compression=packed)
        named = list(messages(raw) if make is pa.ipc.new_stream
                     else block_messages(raw, footer_of(raw)))  # fmt: skip
        offset, length = named[-1].buffers[-1].tolist()
        given = struct.pack("<qq", offset, length)
        where = raw.index(given, raw.rindex(b"\xff\xff\xff\xff", 0, named[-1].start))
        lies = [(-8, length), (offset, -1), (offset, 1 << 40), (1 << 62, length)]
        lies += [(offset, 7)] if packed else []
        for lie in lies:
            _refused(
                raw[:where] + struct.pack("<qq", *lie) + raw[where + 16 :],
                r"outside of its batch|does not say how long",
            )


def test_a_compressed_buffer_says_how_long_it_is() -> None:
    """−1 is one that is stored as it is; other negative lengths are refused."""
    raw = _written(pa.ipc.new_file, TABLE.select(["number"]).slice(0, 600), compression="zstd")
    batch = list(block_messages(raw, footer_of(raw)))[-1]
    offset, length = batch.buffers[-1].tolist()
    where = batch.start + offset
    assert struct.unpack_from("<q", raw, where)[0] == 600 * 8
    stored = raw[:where] + struct.pack("<q", -1) + raw[where + 8 :]
    assert batch.unpacked(raw) - batch.unpacked(stored) == 600 * 8 - (length - 8)
    _refused(raw[:where] + struct.pack("<q", -2) + raw[where + 8 :], "negative")


def test_messages_of_the_version_before_are_refused() -> None:
    """A note beside one of those can say that it is compressed, where its header does not."""
    batch = pa.record_batch([pa.array([1])], ["a"])
    for options, note in (
        ({"metadata_version": pa.ipc.MetadataVersion.V4}, None),
        ({}, {"ARROW:experimental_compression": "zstd"}),
    ):
        sink = io.BytesIO()
        given = pa.ipc.IpcWriteOptions(**options)
        with pa.ipc.new_stream(sink, batch.schema, options=given) as writer:
            writer.write_batch(batch, custom_metadata=note)
        _refused(sink.getvalue(), "not of the form")


def _schema(fields: int, name: bytes) -> bytes:
    """A stream's first message, whose fields are all one and the same."""
    name += bytes(-(len(name) + 4) % 4)
    parts = b"".join(
        [
            struct.pack("<I", 20),  # the message, behind its vtable
            struct.pack("<HHHHHH", 12, 24, 4, 6, 8, 16) + bytes(4),
            struct.pack("<ihBx", 16, 4, 1),
            struct.pack("<I", 24) + bytes(4) + struct.pack("<q", 0),
            struct.pack("<HHHH", 8, 8, 0, 4),  # the schema
            struct.pack("<iI", 8, 4),
            struct.pack("<I", fields),
        ]
    )
    vector = b"".join(struct.pack("<I", 4 * (fields - at) + 6) for at in range(fields))
    field = struct.pack("<HHH", 6, 8, 4) + struct.pack("<iI", 6, 4)
    header = parts + vector + field + struct.pack("<I", len(name)) + name
    header += bytes(-len(header) % 8)
    return struct.pack("<Ii", 0xFFFFFFFF, len(header)) + header


def test_a_schema_takes_no_more_than_its_bytes() -> None:
    """A long name that a thousand columns share, and columns that are all the same one."""
    end = struct.pack("<Ii", 0xFFFFFFFF, 0)
    assert [one.kind for one in messages(_schema(1, b"x" * 1000) + end)] == [SCHEMA]
    _refused(_schema(1000, b"x" * 5000) + end, "more than its bytes")
    _refused(_schema(5000, b"") + end, "more than its bytes")


def test_nested_fields_are_counted() -> None:
    """Columns within columns, and what is told beside them, are bounded as columns are."""
    kind: pa.DataType = pa.int64()
    for _ in range(10):
        kind = pa.struct([("x", kind), ("y", pa.list_(pa.int64()))])
    table = pa.table({"a": pa.array([None], kind)}).replace_schema_metadata({"k": "v" * 500})
    assert len(list(messages(_written(pa.ipc.new_stream, table)))) == 2
    for _ in range(30):
        kind = pa.struct([("x", kind)])
    deep = pa.table({"a": pa.array([None], kind)})
    _refused(_written(pa.ipc.new_stream, deep), "more than its bytes")


def test_a_stream_begins_with_its_schema_and_ends_with_its_end() -> None:
    """What is cut, doubled, turned or followed by something is refused."""
    place = message_at(STREAM, 0).end
    for raw in (b"", STREAM[:-1], STREAM + b"x", STREAM[place:], STREAM[:place] + STREAM):
        _refused(raw, r"cut off|no stream|follows its end")
    with pytest.raises(FormatError, match="cut off"):
        message_at(STREAM, -1)
