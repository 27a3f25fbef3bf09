"""A line to the aggregator: connections are kept, broken ones are told, answers are as they are."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING

import httpx
import pytest

from sherd.errors import ConnectionFailedError
from sherd.federation.wire.line import (
    MOST_UNUSED,
    DirectLine,
    HttpRequest,
    Line,
    TransportLine,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Answers each request on each connection with the next of some bytes; notes what came."""

    def __init__(self, *answers: bytes, hang_up: bool = False) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connections, self.requests = 0, list[bytes]()
        self._answers, self._hang_up = iter(answers), hang_up
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._listener.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self._listener.accept()
                self.connections += 1
                with line:
                    while request := _request(line):
                        self.requests.append(request)
                        answer = next(self._answers, b"")
                        line.sendall(answer)
                        if self._hang_up or not answer:
                            break


def _request(line: socket.socket) -> bytes:
    """One request with its body."""
    found = b""
    while b"\r\n\r\n" not in found:
        if not (piece := line.recv(65536)):
            return b""
        found += piece
    head, _, body = found.partition(b"\r\n\r\n")
    length = [each for each in head.lower().split(b"\r\n") if each.startswith(b"content-length:")]
    left = int(length[0].split(b":")[1]) if length else 0
    while len(body) < left:
        body += line.recv(1 << 20)
    return head + b"\r\n\r\n" + body


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Servers to be closed at the end."""
    made: list[Server] = []
    yield made
    for each in made:
        each.close()


def ask(line: Line, *body: bytes | memoryview, timeout: float = 10.0) -> tuple[int, bytes]:
    """The status and the body of an answer."""
    method = "POST" if body else "GET"
    asked = HttpRequest(method=method, path="/v1/x", headers={"A": "b"}, body=body, timeout=timeout)
    with contextlib.closing(line.send(asked)) as reply:
        return reply.status, b"".join(reply.pieces)


def test_a_connection_is_kept(servers: list[Server]) -> None:
    """Requests follow each other on one connection, small bodies and large ones in parts."""
    servers.append(server := Server(OK, OK, OK))
    line = DirectLine(server.url, None)
    large: list[bytes | memoryview] = [b"head", memoryview(b"x" * (1 << 20)), b"tail"]
    assert ask(line) == ask(line, b"small") == ask(line, *large) == (200, b"ok")
    assert server.connections == 1
    assert server.requests[0].startswith(b"GET /v1/x HTTP/1.1\r\n")
    assert server.requests[1].endswith(b"\r\n\r\nsmall")
    assert server.requests[2].partition(b"\r\n\r\n")[2] == b"".join(large)
    line.close()


def test_one_that_was_hung_up_is_made_again(servers: list[Server]) -> None:
    """A service that closes a connection between two requests does not fail the second."""
    servers.append(server := Server(OK, OK, hang_up=True))
    line = DirectLine(server.url, None)
    assert ask(line) == (200, b"ok")
    for known, _ in line._idle:  # wait until we know that it hung up
        assert known.sock.recv(1, socket.MSG_PEEK) == b""
    assert ask(line) == (200, b"ok")
    assert server.connections == 2


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"not HTTP at all\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * (1 << 17) + b"\r\n\r\n",
    ],
)
def test_nonsense_is_no_answer(servers: list[Server], answer: bytes) -> None:
    """Whatever is cut off or no HTTP is a failed connection, which is not used again."""
    servers.append(server := Server(answer, OK, hang_up=True))
    line = DirectLine(server.url, None)
    with pytest.raises(ConnectionFailedError):
        ask(line)
    assert not line._idle
    assert ask(line) == (200, b"ok")


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n"


@pytest.mark.parametrize(
    ("begun", "more"),
    [
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (CHUNKED + b"0\r\n", b"a: b\r\n"),
    ],
)
def test_what_never_comes_to_an_answer_is_cut_off(
    servers: list[Server], begun: bytes, more: bytes
) -> None:
    """Being told to go on, or what follows a body, without end: about a megabyte of it is read."""
    servers.append(server := Server(begun + more * (16 * MOST_UNUSED // len(more)), hang_up=True))
    line = DirectLine(server.url, None)
    with pytest.raises(ConnectionFailedError, match="nothing comes"):
        ask(line)
    assert not line._idle


def test_an_answer_that_drips_has_an_end() -> None:
    """A byte now and then is not waited for longer than for none, however often one comes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            line, _ = listener.accept()
            with line, contextlib.suppress(OSError):
                line.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                for _ in range(1000):
                    line.sendall(b"y")
                    time.sleep(0.02)

        threading.Thread(target=drip, daemon=True).start()
        began = time.monotonic()
        with pytest.raises(ConnectionFailedError, match="nothing comes"):
            ask(DirectLine(f"http://127.0.0.1:{listener.getsockname()[1]}", None), timeout=0.5)
        assert time.monotonic() - began < 10


def test_silence_ends(servers: list[Server]) -> None:
    """Nobody there, or nothing said in time, is a failed connection."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        line = DirectLine(f"http://127.0.0.1:{silent.getsockname()[1]}", None)
        with pytest.raises(ConnectionFailedError):
            ask(line, timeout=0.05)
    with pytest.raises(ConnectionFailedError):
        ask(line, timeout=5.0)
    assert not servers


def test_half_an_answer_is_not_built_upon(servers: list[Server]) -> None:
    """An answer that was not read to its end leaves no connection for the next request."""
    servers.append(server := Server(OK, OK))
    line = DirectLine(server.url, None)
    line.send(HttpRequest(method="GET", path="/", timeout=5.0)).close()
    assert not line._idle
    assert server.connections == 1


def test_answers_are_told_as_they_are(servers: list[Server]) -> None:
    """Redirects are not followed and encodings not undone, on both kinds of line."""
    packed = b"HTTP/1.1 302 Found\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok"
    servers.append(server := Server(packed))
    other = httpx.MockTransport(
        lambda _: httpx.Response(302, headers={"Content-Encoding": "gzip"}, stream=_Stream())
    )
    for line in (DirectLine(server.url, None), TransportLine("http://a", other)):
        asked = HttpRequest(method="GET", path="/", timeout=5.0)
        with contextlib.closing(line.send(asked)) as reply:
            assert (reply.status, reply.encoding) == (302, "gzip")
            assert b"".join(reply.pieces) == b"ok"


class _Stream(httpx.SyncByteStream):
    def __iter__(self) -> Iterator[bytes]:
        yield b"ok"


def test_a_transport_that_fails_is_a_failed_connection() -> None:
    """Before the answer and in the middle of it."""

    def fail(_request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("no")

    class Breaking(httpx.SyncByteStream):
        def __iter__(self) -> Iterator[bytes]:
            yield b"o"
            raise httpx.ReadError("no")

    transports = (
        httpx.MockTransport(fail),
        httpx.MockTransport(lambda _: httpx.Response(200, stream=Breaking())),
    )
    for transport in transports:
        line = TransportLine("http://a", transport)
        with pytest.raises(ConnectionFailedError):
            ask(line)
        line.close()
