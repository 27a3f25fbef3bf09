"""A TCP proxy that keeps every byte, and a search through what it kept in any encoding."""

from __future__ import annotations

import base64
import binascii
import contextlib
import gzip
import hashlib
import io
import json
import re
import socket
import struct
import threading
import zlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterator


class Proxy:
    """Passes TCP connections on to a port of this machine and keeps what goes through."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._streams: list[bytearray] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def captured(self) -> list[bytes]:
        """Every connection's bytes so far, each direction by itself."""
        return [bytes(stream) for stream in self._streams]

    def close(self) -> None:
        """Accept no more connections."""
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                for source, sink in ((near, far), (far, near)):
                    kept = bytearray()
                    self._streams.append(kept)
                    threading.Thread(
                        target=self._pass_on, args=(source, sink, kept), daemon=True
                    ).start()

    @staticmethod
    def _pass_on(source: socket.socket, sink: socket.socket, kept: bytearray) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                kept += data
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        source.close()  # the other direction's thread closes the other end


@dataclass
class Seen:
    """Everything that can be read in captured bytes: plain bytes, and tables' cells."""

    views: list[bytes] = field(default_factory=list)
    arrow: list[pa.Table] = field(default_factory=list)
    parquet: list[pa.Table] = field(default_factory=list)

    @property
    def cells(self) -> set[Any]:
        """Every cell of every table."""
        return {
            cell
            for table in (*self.arrow, *self.parquet)
            for column in table.columns
            for cell in column.to_pylist()
        }


MAGICS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"\x04\x22\x4d\x18": "lz4"}
ENCODED = re.compile(rb"[A-Za-z0-9+/_-]{24,}={0,2}")


def look(streams: list[bytes]) -> Seen:
    """Read captured streams in every way we know, and what comes out of that again."""
    seen, known = Seen(), set[bytes]()
    waiting = [(stream, 4) for stream in streams]
    while waiting:
        data, depth = waiting.pop()
        mark = hashlib.sha256(data).digest()
        if mark in known:
            continue
        known.add(mark)
        seen.views.append(data)
        if depth:
            _read_tables(data, seen)
            waiting += [(inner, depth - 1) for inner in _inside(data)]
    return seen


def _inside(data: bytes) -> Iterator[bytes]:
    """Whatever is wrapped up in these bytes."""
    yield from _bodies(data)
    with contextlib.suppress(ValueError, RecursionError):
        yield from _strings(json.loads(data))
    for magic, codec in MAGICS.items():
        for match in re.finditer(re.escape(magic), data):
            yield from _unpacked(data[match.start() :], codec)
    for found in ENCODED.findall(data):
        with contextlib.suppress(ValueError):
            yield binascii.unhexlify(found)
        # Other letters may stand before it, and padding may have been left out.
        plain = found.rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
        for cut in range(4):
            with contextlib.suppress(ValueError):
                yield base64.b64decode(plain[cut:] + b"=" * (-len(plain[cut:]) % 4))


def _unpacked(data: bytes, codec: str) -> Iterator[bytes]:
    if codec == "gzip":
        with contextlib.suppress(OSError, EOFError, zlib.error):
            yield gzip.GzipFile(fileobj=io.BytesIO(data)).read1(1 << 24)
        return
    with contextlib.suppress(OSError, pa.ArrowInvalid):
        yield pa.CompressedInputStream(pa.BufferReader(data), codec).read(1 << 20)


def _strings(data: Any) -> Iterator[bytes]:
    if isinstance(data, str):
        yield data.encode()
    elif isinstance(data, dict):
        for key, value in data.items():
            yield from _strings(key)
            yield from _strings(value)
    elif isinstance(data, list):
        for value in data:
            yield from _strings(value)


def _bodies(stream: bytes) -> Iterator[bytes]:
    """The bodies of HTTP messages, one after the other on a connection."""
    place = 0
    while (end := stream.find(b"\r\n\r\n", place)) >= 0:
        head = stream[place:end].lower()
        if b"http/1.1" not in head.partition(b"\r\n")[0]:
            return
        place = end + 4
        if length := re.search(rb"content-length: *(\d+)", head):
            yield stream[place : place + int(length[1])]
            place += int(length[1])
        elif b"transfer-encoding: chunked" in head:
            body = bytearray()
            while size := int(stream[place : (line := stream.index(b"\r\n", place))], 16):
                body += stream[line + 2 : line + 2 + size]
                place = line + 4 + size
            place = line + 4
            yield bytes(body)


def _read_tables(data: bytes, seen: Seen) -> None:
    # A stream may lie anywhere; one that began earlier is read whole, and only once.
    read = 0
    for match in re.finditer(b"\xff\xff\xff\xff", data):
        if match.start() < read:
            continue
        with contextlib.suppress(pa.ArrowInvalid, OSError):
            source = pa.BufferReader(data[match.start() :])
            table = pa.ipc.open_stream(source).read_all()
            read = match.start() + source.tell()
            if table not in seen.arrow:
                seen.arrow.append(table)
    if data[:4] == b"PAR1":
        with contextlib.suppress(pa.ArrowInvalid, OSError):
            seen.parquet.append(pq.read_table(io.BytesIO(data)))


def forms(marker: str | float) -> list[bytes]:
    """The bytes a value or an identifier would show itself by; hashes of identifiers, too."""
    if isinstance(marker, float):
        return [repr(marker).encode(), struct.pack("<d", marker), struct.pack(">d", marker)]
    plain = [marker.encode(), marker.casefold().encode(), marker.encode("utf-16-le")]
    hashes = [
        hashlib.new(name, text).digest()
        for name in ("sha256", "sha1", "md5", "sha512", "blake2b")
        for text in plain[:2]
    ]
    return [*plain, *hashes, *(each.hex().encode() for each in hashes)]


def found(markers: list[str | float], seen: Seen) -> list[str | float]:
    """The markers that can be read in what was captured."""
    cells, whole = seen.cells, b"\0".join(seen.views)
    return [
        marker
        for marker in markers
        if marker in cells or any(form in whole for form in forms(marker))
    ]
