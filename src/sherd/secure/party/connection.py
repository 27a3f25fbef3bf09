"""One connection with another party, once both know who the other is.

Both say from time to time that they are alive, so that a party that computes for long is told from
one that is stalled. A party that is not heard for the time-out is given up; one that only keeps
saying that it is alive is given up after the longest wait. What is received and not yet asked for
is bounded: a sender waits.
"""

from __future__ import annotations

import asyncio
import contextlib
import time

from sherd.errors import ConnectionFailedError, SherdError, catalogue
from sherd.secure.engine.doorway import BROKEN
from sherd.secure.party import message_frames

WAITING = 4
"""Frames of one peer that are kept until somebody asks for them."""


class Connection:
    """Frames in both directions; to be used in the event loop that made it."""

    def __init__(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        timeout: float,
        longest: float,
    ) -> None:
        self.name, self._longest = name, longest
        self._reader, self._writer, self._timeout = reader, writer, timeout
        self._inbox: asyncio.Queue[tuple[bytes, bytes]] = asyncio.Queue(WAITING)
        self._news, self._sending = asyncio.Event(), asyncio.Lock()
        self._heard = time.monotonic()
        # Whether it is us who do not listen, because nobody asks for what has come.
        self._behind = False
        self._error: SherdError | None = None
        self._tasks = [asyncio.create_task(self._listen()), asyncio.create_task(self._say_alive())]

    async def _listen(self) -> None:
        try:
            while True:
                kind, content = await read_frame(self._reader)
                self._heard = time.monotonic()
                if kind == message_frames.ALIVE:
                    continue
                if kind == message_frames.STOP:
                    raise _stopped(self.name, content)
                self._behind = True
                await self._inbox.put((kind, content))
                self._behind, self._heard = False, time.monotonic()
                self._news.set()
        except SherdError as error:
            self._error = error
        except BROKEN:
            self._error = _closed(self.name)
        self._news.set()

    async def _say_alive(self) -> None:
        while self._error is None:
            await asyncio.sleep(min(5.0, self._timeout / 4))
            if not self._sending.locked():
                self._writer.write(message_frames.frame(message_frames.ALIVE, b""))

    def _check(self, since: float) -> None:
        """Raise where the other side is gone, silent, or says nothing that is due for too long."""
        if self._error is not None:
            raise self._error
        if time.monotonic() - since > self._longest:
            raise ConnectionFailedError(
                f"the party '{self.name}' is alive but makes no progress",
                got=f"nothing that is due for {self._longest:g} s",
                do="see what holds it up, or set a higher `longest_wait`, then start all again",
            )
        if not self._behind and time.monotonic() - self._heard > self._timeout:
            raise ConnectionFailedError(
                f"the party '{self.name}' went silent",
                got=f"nothing for {self._timeout:g} s",
                do="see that all parties run, then start all of them again",
            )

    async def receive(self, kind: bytes) -> bytes:
        """Wait for a frame, which must be of that kind."""
        since = time.monotonic()
        while self._inbox.empty():
            self._check(since)
            self._news.clear()
            left = min(self._heard + self._timeout, since + self._longest) - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), max(left, 0.0) + 0.01)
        came, content = self._inbox.get_nowait()
        if came != kind:
            raise message_frames.malformed(
                "a message where a message is due, and numbers where they are"
            )
        return content

    async def send(self, kind: bytes, content: bytes) -> None:
        """Send a frame; returns when the other side takes it, or nearly."""
        async with self._sending:
            self._writer.write(message_frames.frame(kind, content))
            since = time.monotonic()
            while True:
                try:
                    await asyncio.wait_for(self._writer.drain(), 1.0)
                except TimeoutError:
                    self._check(since)  # the other side has not asked for it yet, but is alive
                    continue
                except OSError:
                    raise self._error or _closed(self.name) from None
                return

    async def send_bytes(self, data: bytes) -> None:
        """Send bytes in as many frames as it takes."""
        most = message_frames.MOST[message_frames.NUMBERS]
        for start in range(0, len(data), most):
            await self.send(message_frames.NUMBERS, data[start : start + most])

    async def receive_bytes(self, size: int) -> bytes:
        """Wait for so many bytes, in frames of full length, so that no peer can spin them out."""
        most, data = message_frames.MOST[message_frames.NUMBERS], bytearray()
        while len(data) < size:
            content = await self.receive(message_frames.NUMBERS)
            if len(content) != min(most, size - len(data)):
                raise message_frames.malformed("as many numbers as the protocol asks for")
            data += content
        return bytes(data)

    async def close(self, error: SherdError | None) -> None:
        """Leave; the other side is told of an error by its code, and nothing else of it."""
        if error is not None and not self._sending.locked():
            self._writer.write(message_frames.frame(message_frames.STOP, error.code.encode()))
        self._writer.close()
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(*BROKEN):
            await asyncio.wait_for(self._writer.wait_closed(), 1.0)
        self._writer.transport.abort()


async def read_frame(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """The kind and the content of the next frame."""
    kind, length = message_frames.read_header(await reader.readexactly(message_frames.HEADER))
    return kind, await reader.readexactly(length)


def _closed(name: str) -> ConnectionFailedError:
    return ConnectionFailedError(
        f"the party '{name}' closed the connection",
        do="see its own message, then start all parties again",
    )


def _stopped(name: str, content: bytes) -> ConnectionFailedError:
    kind = catalogue().get(content.decode("ascii", "replace"))
    why = "no known reason" if kind is None else (kind.__doc__ or kind.code).split("\n")[0]
    return ConnectionFailedError(
        f"the party '{name}' ended the run",
        got=why.rstrip("."),
        do="see its own message, then start all parties again",
    )
