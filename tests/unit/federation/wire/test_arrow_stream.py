"""Reading a stranger's Arrow stream: whole or refused, never decompressed."""

from __future__ import annotations

import contextlib
import io
import struct
import time
from typing import TYPE_CHECKING, Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from sherd.errors import PeerError
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire import arrow_stream as arrow
from sherd.federation.wire.arrow_stream import read_table

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST = 1 << 24


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    """A table as an Arrow stream."""
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    return sink.getvalue()


TABLE = pa.table(
    {
        "a": [1, 2, None],
        "b": [0.5, 1.5, 2.5],
        "c": pa.array(["x", "y", "x"]).dictionary_encode(),
        "d": ["p", None, "q"],
        "e": [True, False, None],
    }
)
RAW = stream(TABLE)


def test_reads_what_was_written() -> None:
    """A plain stream comes back as it was, without metadata."""
    assert read_table(RAW, MOST).equals(TABLE)
    marked = TABLE.replace_schema_metadata({"k": "v"})
    assert read_table(stream(marked), MOST).schema.metadata is None


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_streams_are_refused(compression: str) -> None:
    """A stream that would have to be decompressed is refused, however small it is."""
    zeros = pa.table({"a": pa.array([0] * 1_000_000)})
    bomb = stream(zeros, compression)
    assert len(bomb) < 100_000
    with pytest.raises(PeerError, match="compressed"):
        read_table(bomb, MOST)
    coded = pa.table({"a": pa.array(["x" * 5000, "y" * 5000]).dictionary_encode()})
    with pytest.raises(PeerError, match="compressed"):
        read_table(stream(coded, compression), MOST)


def test_a_note_that_a_batch_is_compressed_is_refused() -> None:
    """Arrow would obey it beside a message of an earlier version, whose header says nothing."""
    packed = pa.compress(bytes(8_000_000), codec="zstd", asbytes=True)
    body = struct.pack("<q", 8_000_000) + packed
    skipped = -(len(body) + 8) % 8  # a frame that is passed over, to the next whole number
    body += struct.pack("<II", 0x184D2A50, skipped) + bytes(skipped)
    numbers = pa.Array.from_buffers(pa.int64(), len(body) // 8, [None, pa.py_buffer(body)])
    batch = pa.record_batch([numbers], ["a"])
    sink = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(metadata_version=pa.ipc.MetadataVersion.V4)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as writer:
        writer.write_batch(batch, custom_metadata={"ARROW:experimental_compression": "zstd"})
    with pa.ipc.open_stream(sink.getvalue()) as opened:
        assert opened.read_all().column("a").chunk(0).buffers()[1].size >= 8_000_000
    with pytest.raises(PeerError, match="not of the form"):
        read_table(sink.getvalue(), MOST)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([b"x"]),
        pa.array([None]),
        pa.array([1], pa.duration("s")),
    ],
)
def test_types_that_no_release_has(column: Any) -> None:
    """Nested, binary and other strange columns are refused."""
    with pytest.raises(PeerError, match="type"):
        read_table(stream(pa.table({"a": column})), MOST)


def test_shape_of_the_stream() -> None:
    """Cut off, doubled, reordered, empty, with two columns of one name: all refused."""
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    file = io.BytesIO()
    with pa.ipc.new_file(file, TABLE.schema) as writer:
        writer.write_table(TABLE)
    wrong = [
        b"",
        RAW[:-1],
        RAW[: len(RAW) // 2],
        RAW + b"x",
        RAW + RAW,
        RAW[8:],
        b"\xff\xff\xff\xff\xff\xff\xff\x7f" + RAW,
        b"\xff\xff\xff\xff\x08\x00\x00\x00" + b"\xff" * 8,
        file.getvalue(),
        stream(twice),
    ]
    for raw in wrong:
        with pytest.raises(PeerError) as caught:
            read_table(raw, MOST)
        assert caught.value.reason is Reason.VERIFICATION


def batched(batches: Iterable[pa.RecordBatch], schema: pa.Schema, **options: Any) -> bytes:
    """Batches as an Arrow stream."""
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()


def labelled(codes: int, labels: pa.Array) -> pa.RecordBatch:
    """A batch of so many cells that all have the first label."""
    column = pa.DictionaryArray.from_arrays(pa.array([0] * codes, pa.int32()), labels)
    return pa.RecordBatch.from_arrays([column], ["a"])


def test_a_stream_costs_no_more_than_its_bytes() -> None:
    """Tiny batches, and few that look at a long list each, are refused before they are read."""
    labels = pa.array([f"{number:08d}" for number in range(100_000)])
    tiny, short = labelled(1, labels), labelled(4096, labels)
    for batches in ([tiny] * 400, [short] * 200):
        raw = batched(batches, batches[0].schema)
        began = time.process_time()
        with pytest.raises(PeerError, match=r"too small|too long"):
            read_table(raw, 1 << 30)
        assert time.process_time() - began < 0.1
    nothing = pa.RecordBatch.from_arrays([pa.array([], pa.int64())], ["a"])
    with pytest.raises(PeerError, match="too small"):
        read_table(batched([nothing] * 1000, nothing.schema), MOST)


def test_columns_times_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them is an object, whatever it holds."""
    monkeypatch.setattr(arrow, "MOST_PIECES", 9)
    narrow = pa.RecordBatch.from_arrays([pa.array([1])] * 3, ["a", "b", "c"])
    assert read_table(batched([narrow] * 3, narrow.schema), MOST).num_rows == 3
    with pytest.raises(PeerError, match="too many batches"):
        read_table(batched([narrow] * 4, narrow.schema), MOST)


@pytest.mark.parametrize("how", ["added to", "replaced"])
def test_a_dictionary_comes_once(how: str) -> None:
    """One that grows a little with every batch would be held as often as there are batches."""
    labels = pa.array([f"{number}" for number in range(100)])
    pieces = [labels.slice(0, 90 + n) if how == "added to" else labels.slice(n) for n in range(3)]
    batches = [labelled(10, piece) for piece in pieces]
    raw = batched(batches, batches[0].schema, emit_dictionary_deltas=how == "added to")
    with pytest.raises(PeerError, match="once and first"):
        read_table(raw, MOST)


def test_columns_that_share_their_bytes() -> None:
    """Many columns that point at the same bytes would be checked as if all had been sent."""
    columns = [pa.array(["x" * 500_000]), *[pa.array([""])] * 49]
    batch = pa.RecordBatch.from_arrays(columns, [f"c{number}" for number in range(50)])
    raw = batched([batch], batch.schema)
    first = struct.pack("<6q", 0, 0, 0, 8, 8, 500_000)  # where the first column's buffers lie
    at = raw.index(first)
    forged = raw[:at] + first * 50 + raw[at + len(first) * 50 :]
    with pa.ipc.open_stream(forged) as stream:
        assert stream.read_all().nbytes > 40 * len(forged)
    with pytest.raises(PeerError, match="same bytes"):
        read_table(forged, 1 << 30)


def test_numbers_the_other_way_round() -> None:
    """They would be turned round in memory, which owners have no use for."""
    schema = bytes.fromhex("0800080000000400")  # which fields it has: no order of bytes
    assert RAW.count(schema) == 1
    raw = RAW.replace(schema, bytes.fromhex("0800080004000400"))
    with pytest.raises(PeerError, match="other way round"):
        read_table(raw, MOST)


def test_too_many_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of columns is bounded."""
    monkeypatch.setattr(arrow, "MOST_COLUMNS", 3)
    with pytest.raises(PeerError, match="columns"):
        read_table(RAW, MOST)


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_changed_bytes_are_read_or_refused(data: st.DataObject) -> None:
    """Whatever bytes are changed, the answer is a table or a PeerError, never a crash."""
    raw = bytearray(RAW)
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(PeerError):
        read_table(bytes(raw), MOST)
