"""The way of SPU's bytes between computing parties: TLS with pinned certificates, and nothing else.

SPU's own server takes connections without TLS on the port that has it, so it is not given a port:
it listens at a socket in a folder that only this user can open, and finds the others at sockets
beside it. What passes there passes here, through TLS 1.3 connections on which both sides showed,
byte for byte, the certificate that was agreed on.
"""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import ConnectionFailedError
from sherd.secure.engine.doorway import BROKEN, Doorway, LoopThread, shown_certificate
from sherd.secure.engine.link import address_of, certificate_bytes, tls_context

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sherd.secure.engine.link import Peer

    Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

MOST_CONNECTIONS = 16
"""The most connections of one peer at a time; SPU makes one, and another where that broke."""

PIECE = 1 << 18
"""The most bytes of one connection that are in memory here, in each direction."""

LONGEST_PATH = 80
"""Longer paths are not sure to fit into the address of a socket."""


class Tunnel:
    """One party's ends of all connections; ``addresses`` are where SPU is to listen and to call."""

    def __init__(self, peers: Sequence[Peer], rank: int, key: Path, *, timeout: float) -> None:
        self._peers, self._rank, self._timeout = peers, rank, timeout
        self._pinned = [certificate_bytes(peer.certificate) for peer in peers]
        own, others = peers[rank].certificate, [*peers[:rank], *peers[rank + 1 :]]
        self._contexts = [tls_context(ssl.PROTOCOL_TLS_CLIENT, own, key, [p]) for p in peers]
        self._door = Doorway(tls_context(ssl.PROTOCOL_TLS_SERVER, own, key, others))
        self._folder = _private_folder()
        self._servers: list[asyncio.AbstractServer] = []
        self._dialled: dict[int, Streams] = {}
        self._connected: Counter[int] = Counter()
        self._thread = LoopThread()

    @property
    def addresses(self) -> list[str]:
        """By place: where SPU listens, and where it finds the others."""
        return [f"unix:{self._socket(place)}" for place in range(len(self._peers))]

    def _socket(self, place: int) -> Path:
        return self._folder / str(place)

    def open(self) -> None:
        """Listen, and reach everybody else; raises where somebody does not come in time."""
        try:
            self._thread.call(self._open())
        except BaseException:
            self.close()
            raise

    async def _open(self) -> None:
        host, port = address_of(self._peers[self._rank].address)
        try:
            self._servers.append(await asyncio.start_server(self._accept, host, port))
        except OSError as error:
            raise ConnectionFailedError(
                "this party cannot listen where it computes",
                got=f"{host}:{port}: {error.strerror}",
                do="see that the address is this machine's, and that nothing else uses the port",
            ) from None
        others = [place for place in range(len(self._peers)) if place != self._rank]
        deadline = time.monotonic() + self._timeout
        await asyncio.gather(*(self._reach(place, deadline) for place in others))
        if absent := [self._peers[place].name for place in others if place not in self._dialled]:
            raise unreachable(absent, self._timeout)
        for place in others:
            self._servers.append(await self._way_to(place))

    async def _reach(self, place: int, deadline: float) -> None:
        """Make the first connection with a party, once it listens."""
        while place not in self._dialled and time.monotonic() < deadline:
            with contextlib.suppress(TimeoutError, *BROKEN):
                async with asyncio.timeout(deadline - time.monotonic()):
                    self._dialled[place] = await self._dial(place)
                return
            await asyncio.sleep(0.1)

    async def _dial(self, place: int) -> Streams:
        host, port = address_of(self._peers[place].address)
        reader, writer = await asyncio.open_connection(
            host, port, ssl=self._contexts[place], limit=PIECE
        )
        if shown_certificate(writer) != self._pinned[place]:
            writer.transport.abort()
            raise ConnectionResetError
        return reader, writer

    async def _way_to(self, place: int) -> asyncio.AbstractServer:
        """A socket here, for SPU, that leads to a party."""

        async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(*BROKEN):
                far = self._dialled.pop(place, None) or await self._dial(place)
                await _join((reader, writer), far)
            writer.transport.abort()

        return await asyncio.start_unix_server(called, self._socket(place), limit=PIECE)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Let a party that is known through to SPU, and nobody else."""
        shown = await self._door.admit(writer)
        if shown is None:
            return
        place = self._pinned.index(shown) if shown in self._pinned else self._rank
        if place != self._rank and self._connected[place] < MOST_CONNECTIONS:
            self._connected[place] += 1
            try:
                with contextlib.suppress(*BROKEN):
                    await _join((reader, writer), await self._own())
            finally:
                self._connected[place] -= 1
        writer.transport.abort()

    async def _own(self) -> Streams:
        """A connection with our own SPU, which may be about to start."""
        until = time.monotonic() + self._timeout
        while True:
            try:
                return await asyncio.open_unix_connection(self._socket(self._rank), limit=PIECE)
            except OSError:
                if time.monotonic() > until:
                    raise
                await asyncio.sleep(0.05)

    def close(self) -> None:
        """Take everything down."""
        self._thread.stop(self._close())
        shutil.rmtree(self._folder, ignore_errors=True)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        self._door.close()
        for _, writer in self._dialled.values():
            writer.transport.abort()


async def _join(near: Streams, far: Streams) -> None:
    """Pass on what either side says, until one of them leaves."""
    ways = [
        asyncio.create_task(_pass_on(near[0], far[1])),
        asyncio.create_task(_pass_on(far[0], near[1])),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for _, writer in (near, far):
            writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(PIECE):
        writer.write(piece)
        await writer.drain()


def _private_folder() -> Path:
    """A folder that only this user can open, with a path that is short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="sherd-link-"))
    if len(str(folder)) <= LONGEST_PATH:
        return folder
    folder.rmdir()
    return Path(tempfile.mkdtemp(prefix="sherd-link-", dir="/tmp"))


def unreachable(names: Sequence[str], timeout: float) -> ConnectionFailedError:
    """Say who did not come."""
    return ConnectionFailedError(
        "other parties could not be reached",
        must=f"running, reachable and holding the agreed keys: {', '.join(names)}",
        got=f"no connection within {timeout:g} s",
        do="compare addresses and certificates, then start all parties again",
    )
