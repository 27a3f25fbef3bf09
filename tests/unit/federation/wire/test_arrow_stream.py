"""Reading a stranger's Arrow stream: whole or refused, never decompressed."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import hypothesis.strategies as st
import pyarrow as pa
import pytest
from hypothesis import given, settings

from sherd.errors import PeerError
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire import arrow_stream as arrow
from sherd.federation.wire.arrow_stream import read_table

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
