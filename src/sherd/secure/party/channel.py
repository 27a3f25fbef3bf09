"""The channel between parties: every two of them share one TLS connection.

Each party listens where its address says; of every two the later in the list dials. Both show
their certificate, and a connection counts only if that is, byte for byte, the one agreed on for
that party.

An event loop in a thread of its own does all reading and writing, so that a party that is busy
computing still answers; the methods here are called from the outside and wait for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError, SherdError, UsageError
from sherd.secure.engine.doorway import BROKEN, Doorway, LoopThread, shown_certificate
from sherd.secure.engine.link import address_of, certificate_bytes, tls_context
from sherd.secure.party import message_frames
from sherd.secure.party.connection import Connection, read_frame

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from sherd.secure.engine.link import Peer

    Words = NDArray[np.uint64]

GREETING = {"sherd party": 1}


class Channel:
    """One party's connections with all others, who are named by their place in the list."""

    def __init__(
        self,
        peers: Sequence[Peer],
        rank: int,
        key: Path,
        *,
        timeout: float,
        longest_wait: float = 3600.0,
    ) -> None:
        for path in (key, *(peer.certificate for peer in peers)):
            if not path.is_file():
                raise UsageError("a key or certificate is missing", got=str(path))
        self._peers, self._rank, self._key, self._timeout = peers, rank, key, timeout
        try:
            self._pinned = [certificate_bytes(peer.certificate) for peer in peers]
            self._contexts = [
                self._context(ssl.PROTOCOL_TLS_CLIENT, [peer]) for peer in peers[:rank]
            ]
            self._door = Doorway(self._context(ssl.PROTOCOL_TLS_SERVER, peers[rank + 1 :]))
        except (OSError, ValueError):
            raise UsageError(
                "a key or certificate cannot be used",
                must="those that `sherd party init` made, in PEM",
            ) from None
        self._connections: dict[int, Connection] = {}
        self._longest = longest_wait
        self._refused: SherdError | None = None
        self._arrival = asyncio.Event()
        self._server: asyncio.Server | None = None
        self._thread = LoopThread()

    def _context(self, protocol: int, trusted: Sequence[Peer]) -> ssl.SSLContext:
        return tls_context(protocol, self._peers[self._rank].certificate, self._key, trusted)

    def _call(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._thread.call(work)

    # Connecting

    def connect(self, *, all_needed: bool = True) -> list[int]:
        """Join the others; the places of those that came in time."""
        self._call(self._connect())
        if self._refused is not None:
            raise self._refused
        absent = [
            peer.name
            for place, peer in enumerate(self._peers)
            if place != self._rank and place not in self._connections
        ]
        if absent and all_needed:
            raise ConnectionFailedError(
                "other parties could not be reached",
                must=f"running, reachable and holding the agreed keys: {', '.join(absent)}",
                got=f"no connection within {self._timeout:g} s",
                do="compare addresses and certificates, then start all parties again",
            )
        return sorted(self._connections)

    async def _connect(self) -> None:
        host, port = address_of(self._peers[self._rank].address)
        try:
            self._server = await asyncio.start_server(self._accept, host, port)
        except OSError as error:
            raise ConnectionFailedError(
                "this party cannot listen on its address",
                got=f"{host}:{port}: {error.strerror}",
                do="see that the address is this machine's, and that nothing else uses the port",
            ) from None
        deadline = time.monotonic() + self._timeout
        dialling = [asyncio.create_task(self._dial(place)) for place in range(self._rank)]
        while len(self._connections) < len(self._peers) - 1 and self._refused is None:
            self._arrival.clear()
            left = deadline - time.monotonic()
            if left <= 0:
                break
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrival.wait(), left)
        for task in dialling:
            task.cancel()
        self._server.close()

    async def _dial(self, place: int) -> None:
        host, port = address_of(self._peers[place].address)
        while place not in self._connections and self._refused is None:
            with contextlib.suppress(*BROKEN):
                reader, writer = await asyncio.open_connection(
                    host, port, ssl=self._contexts[place]
                )
                await self._greet(reader, writer, [place])
            await asyncio.sleep(0.2)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a caller show who it is; those who only hold connections keep nobody out."""
        if await self._door.admit(writer) is not None:
            with contextlib.suppress(*BROKEN):
                await self._greet(reader, writer, range(self._rank + 1, len(self._peers)))

    async def _greet(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, who: Sequence[int]
    ) -> None:
        """Take the connection if it is of one of those, and if it speaks as parties do."""
        shown = shown_certificate(writer)
        known = [place for place in who if self._pinned[place] == shown]
        taken = False
        try:
            if not known or known[0] in self._connections:
                return
            writer.write(
                message_frames.frame(message_frames.MESSAGE, message_frames.pack(GREETING))
            )
            kind, content = await asyncio.wait_for(read_frame(reader), self._timeout)
            if kind != message_frames.MESSAGE or message_frames.unpack(content) != GREETING:
                raise message_frames.malformed("a greeting")
            self._connections[known[0]] = Connection(
                self._peers[known[0]].name,
                reader,
                writer,
                timeout=self._timeout,
                longest=self._longest,
            )
            taken = True
        except SherdError as error:
            self._refused = error
        finally:
            if not taken:
                writer.transport.abort()
            self._arrival.set()

    # What parties say

    def exchange(self, message: Any) -> dict[int, Any]:
        """Everybody's message, one's own included, by their places."""
        content = message_frames.pack(message)
        received = self._call(
            self._both(
                [one.send(message_frames.MESSAGE, content) for one in self._connections.values()],
                [one.receive(message_frames.MESSAGE) for one in self._connections.values()],
            )
        )
        told = dict(zip(self._connections, map(message_frames.unpack, received), strict=True))
        return dict(sorted({**told, self._rank: message}.items()))

    def exchange_bytes(self, data: bytes, sizes: Mapping[int, int]) -> dict[int, bytes]:
        """Everybody's bytes, of the sizes given, by their places."""
        received = self._call(
            self._both(
                [one.send_bytes(data) for one in self._connections.values()],
                [one.receive_bytes(sizes[p]) for p, one in self._connections.items()],
            )
        )
        told = dict(zip(self._connections, received, strict=True))
        return dict(sorted({**told, self._rank: data}.items()))

    def pass_bytes(self, to: int, data: bytes, of: int, size: int) -> bytes:
        """Send bytes to one party, and have those of a size of another."""
        sending = self._connections[to].send_bytes(data)
        receiving = self._connections[of].receive_bytes(size)
        passed: bytes = self._call(self._both([sending], [receiving]))[0]
        return passed

    async def _both(self, sends: list[Any], receives: list[Any]) -> list[Any]:
        """Send and receive at once, lest two parties wait for each other to listen."""
        results = await asyncio.gather(*sends, *receives, return_exceptions=True)
        received = results[len(sends) :]
        # What a party said before it left counts, also if it did not hear us any more.
        for one in (*received, *results[: len(sends)]):
            if isinstance(one, BaseException):
                raise one
        return received

    def send_numbers(self, owner: int, numbers: Words) -> None:
        """Send an array."""
        self._call(self._connections[owner].send_bytes(numbers.astype("<u8").tobytes()))

    def receive_numbers(self, owner: int, count: int) -> Words:
        """Wait for an array of that many numbers."""
        import numpy as np

        raw = self._call(self._connections[owner].receive_bytes(8 * count))
        return np.frombuffer(raw, "<u8").astype(np.uint64)

    def send_opened(self, owner: int, what: str, values: tuple[int, ...]) -> None:
        """Tell an owner what was opened."""
        content = message_frames.pack([what, values])
        self._call(self._connections[owner].send(message_frames.MESSAGE, content))

    def receive_opened(self, owner: int) -> tuple[str, tuple[int, ...]]:
        """Wait for what was opened."""
        from sherd.secure.party.run_journal import SignedResult

        told = message_frames.unpack(
            self._call(self._connections[owner].receive(message_frames.MESSAGE))
        )
        try:
            one = SignedResult.from_data([*told, []])
        except (ValueError, TypeError):
            raise message_frames.malformed("an opened result") from None
        return one.what, one.values

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        unknown = None if error is None else SherdError("")
        self.close(error if isinstance(error, SherdError) else unknown)

    def part(self) -> None:
        """Wait until the others have all they need of us, or are gone."""
        with contextlib.suppress(SherdError):
            self.exchange("done")

    def close(self, error: SherdError | None = None) -> None:
        """Leave; the others are told of an error by its code, and nothing else of it."""
        self._thread.stop(self._close(error))

    async def _close(self, error: SherdError | None) -> None:
        if self._server is not None:
            self._server.close()
        await asyncio.gather(*(one.close(error) for one in self._connections.values()))
