"""Lines to an aggregator over which requests go, and what comes back.

An owner calls its aggregator all the time. ``DirectLine`` is the standard library's HTTP over
connections that are kept open, with as little in between as can be; where a proxy is in between,
or a test puts itself there, ``TransportLine`` goes through httpx, which knows all kinds of proxies.
Both give answers as they are: what is done with their size, form and pace is the client's business.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import select
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import httpx

from sherd.errors import ConnectionFailedError

if TYPE_CHECKING:
    import socket
    import ssl
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from _typeshed import WriteableBuffer

IDLE_SECONDS = 60.0
"""How long a connection is kept that is not used: the service hangs up after 75 s."""

_PIECE = 256 << 10

MOST_UNUSED = 1 << 20
"""The most bytes of which nothing comes: headers, words to go on, what frames a body."""


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """What is asked of an aggregator; ``timeout`` is how many seconds may pass without a byte."""

    method: str
    path: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Sequence[bytes | memoryview] = ()
    timeout: float


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer that has begun: its pieces are read once, and then it is closed."""

    status: int
    encoding: str
    pieces: Iterable[bytes]
    close: Callable[[], None]


class Line(Protocol):
    """Sends a request and gives the answer that has begun; ConnectionFailedError without one."""

    def send(self, request: HttpRequest) -> Reply:
        """Send one request."""

    def close(self) -> None:
        """Hang up."""


def unreachable(error: Exception) -> ConnectionFailedError:
    """The error of a call that was not answered."""
    untrusted = "CERTIFICATE_VERIFY_FAILED" in str(error)
    return ConnectionFailedError(
        "the aggregator cannot be reached",
        got=f"{type(error).__name__}: {error}",
        do="check the address, and that the authority (--authority, or authority.pem in the "
        "folder) is the one that issued the aggregator's certificate"
        if untrusted
        else "check the address, the certificates and the network; an agent tries again by itself",
    )


class TransportLine:
    """Requests through a transport of httpx."""

    def __init__(self, url: str, transport: httpx.BaseTransport) -> None:
        self._url = url
        self._transport = transport

    def close(self) -> None:
        """Hang up."""
        self._transport.close()

    def send(self, request: HttpRequest) -> Reply:
        """Send one request."""
        sent = httpx.Request(
            request.method,
            self._url + request.path,
            headers=dict(request.headers),
            content=b"".join(request.body) if request.body else None,
            extensions={"timeout": httpx.Timeout(request.timeout).as_dict()},
        )
        try:
            answer = self._transport.handle_request(sent)
        except httpx.HTTPError as error:
            raise unreachable(error) from None
        answer.request = sent
        assert isinstance(answer.stream, httpx.SyncByteStream)
        return Reply(
            status=answer.status_code,
            encoding=answer.headers.get("content-encoding", "identity"),
            pieces=_translated(answer.stream),
            close=answer.close,
        )


def _translated(pieces: Iterable[bytes]) -> Iterator[bytes]:
    try:
        yield from pieces
    except httpx.HTTPError as error:
        raise unreachable(error) from None


class _Watched(io.RawIOBase):
    """What a connection brings, so much of it and so long as may pass until something comes of it.

    The library's reader has limits for a line and for the lines of a header, none for how often it
    is told to go on, or for what follows a body.
    """

    def __init__(self, raw: io.RawIOBase, seconds: float) -> None:
        self._raw, self._seconds = raw, seconds
        self.go_on()

    def go_on(self) -> None:
        """Something came of it: from here on it is counted again."""
        self._until, self._left = time.monotonic() + self._seconds, MOST_UNUSED

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Read what is there."""
        if self._left <= 0 or time.monotonic() > self._until:
            raise TimeoutError("nothing comes of the answer")
        size = self._raw.readinto(buffer)
        self._left -= size or 0
        return size

    def close(self) -> None:
        """Hang up."""
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    """An answer that is watched while it comes."""

    def __init__(self, sock: socket.socket, *given: Any, **options: Any) -> None:
        super().__init__(sock, *given, **options)
        self.watched = _Watched(self.fp.detach(), sock.gettimeout() or 0.0)
        self.fp = io.BufferedReader(self.watched)


class DirectLine:
    """Requests over connections of our own; one that is not in use is kept for the next."""

    def __init__(self, url: str, context: ssl.SSLContext | None) -> None:
        parts = urllib.parse.urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port
        self._secure, self._prefix = parts.scheme == "https", parts.path
        self._context = context
        self._idle: list[tuple[http.client.HTTPConnection, float]] = []

    def close(self) -> None:
        """Hang up."""
        while self._idle:
            self._idle.pop()[0].close()

    def __del__(self) -> None:
        """Hang up when the line is let go of."""
        self.close()

    def _connection(self, timeout: float) -> http.client.HTTPConnection:
        while self._idle:
            known, since = self._idle.pop()
            if time.monotonic() - since < IDLE_SECONDS and _is_open(known):
                known.sock.settimeout(timeout)
                return known
            known.close()
        made = (
            http.client.HTTPSConnection(
                self._host, self._port, timeout=timeout, context=self._context
            )
            if self._secure
            else http.client.HTTPConnection(self._host, self._port, timeout=timeout)
        )
        made.response_class = _Answer
        return made

    def send(self, request: HttpRequest) -> Reply:
        """Send one request."""
        connection = None
        size = sum(len(part) for part in request.body)
        headers = dict(request.headers)
        if request.body or request.method in ("POST", "PUT"):
            headers["Content-Length"] = str(size)
        content = (b"".join(request.body) if size <= _PIECE else request.body) or None
        try:
            connection = self._connection(request.timeout)
            place = self._prefix + request.path
            connection.request(request.method, place, body=content, headers=headers)
            answer = connection.getresponse()
        except (OSError, ValueError, http.client.HTTPException) as error:
            if connection is not None:
                connection.close()
            raise unreachable(error) from None
        whole = False

        def pieces() -> Iterator[bytes]:
            nonlocal whole
            yield from _read(answer)
            whole = True

        def close() -> None:
            answer.close()
            if whole and connection.sock is not None:
                self._idle.append((connection, time.monotonic()))
            else:
                connection.close()

        encoding = answer.getheader("Content-Encoding", "identity")
        return Reply(status=answer.status, encoding=encoding, pieces=pieces(), close=close)


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Whether the other side has neither hung up nor said anything unasked."""
    with contextlib.suppress(OSError, ValueError):
        poll = select.poll()
        poll.register(connection.sock, select.POLLIN)
        return not poll.poll(0)
    return False


def _read(answer: http.client.HTTPResponse) -> Iterator[bytes]:
    try:
        while piece := answer.read1(_PIECE):
            if isinstance(answer, _Answer):
                answer.watched.go_on()
            yield piece
        if answer.length:  # the connection broke before the end
            raise http.client.IncompleteRead(b"", answer.length)
        answer.read()  # nothing is left: the connection is free for the next request
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise unreachable(error) from None
