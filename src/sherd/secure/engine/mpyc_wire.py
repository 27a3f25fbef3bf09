"""MPyC's connections: who is at the other end, and what its bytes may be.

MPyC itself writes arrays of shares by pickle, and a party that can send a pickle has its code run
by the receiver. Here shares are numbers of a fixed width, and nothing else is read. A connection
counts if the certificate is, byte for byte, the one agreed on for a party; what a party may have
waiting is bounded, and bytes that are no shares end the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.secure.engine.doorway import BROKEN, Doorway, shown_certificate
from sherd.secure.engine.link import address_of, certificate_bytes, tls_context, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sherd.secure.engine.link import Peer

MOST_WAITING = 1 << 30
"""The most bytes of one party that are kept before they are asked for."""

_HEADER = struct.Struct("<qI")
_ROOM = 300
"""About what Python needs to keep a message, besides its bytes."""


class ShareBytes:
    """Arrays of field elements as bytes; it stands where MPyC has ``pickle``.

    >>> coded = ShareBytes(2**61 - 1)
    >>> coded.loads(coded.dumps(np.array([5, 2**60], object))).tolist()
    [5, 1152921504606846976]
    """

    def __init__(self, modulus: int) -> None:
        self._modulus, self._width = modulus, -(-modulus.bit_length() // 8)

    def dumps(self, shares: Any) -> bytes:
        """Numbers, each as many bytes as the field's largest takes."""
        width = self._width
        return b"".join([int(one).to_bytes(width, "little") for one in np.ravel(shares)])

    def loads(self, raw: bytes) -> Any:
        """Numbers of the field, in an array of Python's numbers; whatever else comes is refused."""
        width = self._width
        if not isinstance(raw, bytes) or not raw or len(raw) % width:
            raise unreadable("shares of a fixed width")
        numbers = [
            int.from_bytes(raw[at : at + width], "little") for at in range(0, len(raw), width)
        ]
        if max(numbers) >= self._modulus:
            raise unreadable("shares that are numbers of the field")
        return np.array([*numbers, None], object)[:-1]


def exchanger(runtime: Any, place: int, lost: Callable[[Exception | None], None]) -> Any:
    """MPyC's end of a connection with the party at a place, its messages bounded."""
    from mpyc.asyncoro import MessageExchanger

    class Exchanger(MessageExchanger):  # type: ignore[misc]
        """Messages by their program counter, each once."""

        kept = 0

        def data_received(self, data: bytes) -> None:
            """Sort out whole messages."""
            held = self.bytes
            held.extend(data)
            while len(held) >= _HEADER.size:
                counter, size = _HEADER.unpack_from(held)
                if size + self.kept > MOST_WAITING:
                    raise unreadable(f"at most {MOST_WAITING} bytes that nobody has asked for")
                end = _HEADER.size + size
                if len(held) < end:
                    return
                payload = bytes(held[_HEADER.size : end])
                del held[:end]
                waiting = self.buffers.get(counter)
                if isinstance(waiting, asyncio.Future):
                    self.buffers.pop(counter).set_result(payload)
                elif waiting is None:
                    self.buffers[counter] = payload
                    self.kept += size + _ROOM
                else:
                    raise unreadable("one message for each step")

        def receive(self, pc: int) -> Any:
            """The message of a step, or a future of it."""
            payload = super().receive(pc)
            if isinstance(payload, bytes):
                self.kept -= len(payload) + _ROOM
            return payload

        def connection_lost(self, exc: Exception | None) -> None:
            lost(exc)

    return Exchanger(runtime, place)


class MpycMeeting:
    """Joins MPyC's runtime to the other parties: those after this one are dialled."""

    def __init__(self, runtime: Any, peers: Sequence[Peer], rank: int, key: Path) -> None:
        self._runtime, self._peers, self._rank, self._key = runtime, peers, rank, key
        self._pinned = [certificate_bytes(peer.certificate) for peer in peers]
        self._reading: list[asyncio.Task[None]] = []
        self.lost = asyncio.Event()
        self.error: Exception | None = None

    def broken(self, error: Exception | None) -> None:
        """A party is gone, or said what cannot be read: the run is over."""
        self.error = self.error or error
        self.lost.set()

    async def join(self) -> None:
        """Wait until everybody is there."""
        runtime, rank, peers = self._runtime, self._rank, self._peers
        for party in runtime.parties:
            party.protocol = asyncio.Future() if party.pid == rank else None
        door = Doorway(self._context(ssl.PROTOCOL_TLS_SERVER, peers[:rank]))
        server = None
        if rank:
            host, port = address_of(peers[rank].address)
            server = await asyncio.start_server(
                lambda *streams: self._accept(door, *streams), host, port
            )
        try:
            for place in range(rank + 1, len(peers)):
                await self._dial(place)
            await runtime.parties[rank].protocol
        finally:
            door.close()
            if server is not None:
                server.close()

    def _context(self, protocol: int, trusted: Sequence[Peer]) -> ssl.SSLContext:
        return tls_context(protocol, self._peers[self._rank].certificate, self._key, trusted)

    def missing(self) -> list[str]:
        """The names of those that are not there."""
        parties = self._runtime.parties
        return [
            peer.name
            for place, peer in enumerate(self._peers)
            if place != self._rank and parties[place].protocol is None
        ]

    async def _dial(self, place: int) -> None:
        context = self._context(ssl.PROTOCOL_TLS_CLIENT, [self._peers[place]])
        host, port = address_of(self._peers[place].address)
        while True:
            with contextlib.suppress(*BROKEN):
                reader, writer = await asyncio.open_connection(host, port, ssl=context)
                if shown_certificate(writer) == self._pinned[place]:
                    protocol = exchanger(self._runtime, place, self.broken)
                    protocol.connection_made(writer.transport)
                    self._reading.append(asyncio.create_task(self._read(protocol, reader, writer)))
                    return
                writer.transport.abort()
            await asyncio.sleep(0.1)

    async def _accept(
        self, door: Doorway, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Take the first connection of each earlier party, which begins with its place."""
        shown = await door.admit(writer)
        if shown is None:
            return
        known = self._pinned[: self._rank]
        place = known.index(shown) if shown in known else -1
        with contextlib.suppress(*BROKEN):
            claimed = int.from_bytes(await reader.readexactly(2), "little")
            if claimed == place and self._runtime.parties[place].protocol is None:
                protocol = exchanger(self._runtime, place, self.broken)
                protocol.transport = writer.transport
                self._runtime.set_protocol(place, protocol)
                await self._read(protocol, reader, writer)
        writer.transport.abort()

    async def _read(
        self, made: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Hand over what comes, until it ends or is no message."""
        error: Exception | None = None
        try:
            while data := await reader.read(1 << 18):
                made.data_received(data)
        except Exception as problem:
            error = problem
        writer.transport.abort()
        made.connection_lost(error)
