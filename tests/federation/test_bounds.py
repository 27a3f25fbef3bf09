"""What somebody who is not logged in can make the aggregator hold: little, and not for long."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import trustme

from sherd.federation.aggregator import arrivals, service, serving
from sherd.federation.aggregator.service import MOST_LOGIN
from sherd.federation.wire.exchange import MOST_REQUEST

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from consortium import Consortium


@pytest.fixture
def port(consortium: Consortium, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """A real service that gives callers half a second for their headers."""
    monkeypatch.setattr(serving, "HEADER_SECONDS", 0.5)
    listener = socket.create_server(("127.0.0.1", 0))
    server = serving.server(consortium.aggregator, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield listener.getsockname()[1]
    server.should_exit = True
    thread.join(10)


@pytest.mark.parametrize("begun", [b"", b"GET /v1/health HTTP/1.1\r\nX-Slow: "])
def test_callers_that_do_not_ask_are_hung_up_on(port: int, begun: bytes) -> None:
    """Idle connections, and headers that never end, are closed in time; others are served."""
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(50)]
    for each in idle:
        each.sendall(begun)
    assert httpx.get(f"http://127.0.0.1:{port}/v1/health").status_code == 200
    for each in idle:
        each.settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            assert each.recv(1) == b""
        each.close()
    assert serving._Protocol.by_address["127.0.0.1"] <= 1


@pytest.fixture
def tls_port(consortium: Consortium, tmp_path: Path) -> Iterator[int]:
    """A real service with TLS that listens by itself."""
    certificate = trustme.CA().issue_cert("127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(chain, append=True)
    certificate.private_key_pem.write_to_path(key)
    server = serving.server(consortium.aggregator, host="127.0.0.1", port=0, tls=(chain, key))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(10)


def test_callers_at_the_door_make_room(tls_port: int) -> None:
    """Of those who connect and begin no TLS few are kept, the newest, and others are served."""
    more = 20
    silent = [
        socket.create_connection(("127.0.0.1", tls_port))
        for _ in range(arrivals.MOST_ARRIVING + more)
    ]
    health = f"https://127.0.0.1:{tls_port}/v1/health"
    assert httpx.get(health, verify=False).status_code == 200  # noqa: S501 - whoever it is
    for each in silent[:more]:
        each.settimeout(20)  # the server alone would let each of them wait for a minute
        with contextlib.suppress(ConnectionResetError):
            assert each.recv(1) == b""
    silent[-1].settimeout(0.1)
    with pytest.raises(TimeoutError):
        silent[-1].recv(1)
    for each in silent:
        each.close()


def test_nobody_stands_at_the_door_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes next finds those gone whose handshake takes too long."""
    monkeypatch.setattr(arrivals, "HANDSHAKE_SECONDS", 0.0)
    (listener,) = arrivals.listeners("127.0.0.1", 0)
    listener.setblocking(True)
    listener.listen()
    with listener, socket.create_connection(listener.getsockname()) as first:
        one, _ = listener.accept()
        time.sleep(0.01)
        with socket.create_connection(listener.getsockname()) as second:
            two, peer = listener.accept()
            first.settimeout(20)
            assert first.recv(1) == b""
            arrivals.arrived(peer)  # a handshake that is done is not ended
            with socket.create_connection(listener.getsockname()):
                three, _ = listener.accept()
                second.settimeout(0.1)
                with pytest.raises(TimeoutError):
                    second.recv(1)
        for each in (one, two, three):
            each.close()


def test_a_proxy_may_bring_many(consortium: Consortium) -> None:
    """An address holds few connections unless it was named as a proxy's."""
    made = serving.server(consortium.aggregator, host="127.0.0.1", port=0, proxies=["10.0.0.7"])
    protocol: Any = made.config.http
    assert "10.0.0.7" in protocol.unlimited
    assert "10.0.0.7" not in serving._Protocol.unlimited
    made.config.load()
    assert made.config.loaded_app is made.config.app, "nobody is believed who names an address"


@pytest.mark.parametrize("path", ["/v1/challenge", "/v1/exchange", "/v1/rounds"])
def test_a_body_that_drips_is_not_waited_for(
    port: int, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who sends the headers and then hardly anything is answered that this is too slow."""
    monkeypatch.setattr(service, "BODY_SECONDS", 0.3)
    with socket.create_connection(("127.0.0.1", port)) as line:
        head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n"
        line.sendall((head + "Content-Length: 4000\r\n\r\n{").encode())
        line.settimeout(20)
        heard = line.recv(1 << 12)
    assert heard.startswith((b"HTTP/1.1 408", b"HTTP/1.1 401")), heard
    if path != "/v1/rounds":  # where the token is looked at first
        assert heard.startswith(b"HTTP/1.1 408"), heard


def test_a_slow_but_honest_caller_is_served(port: int) -> None:
    """A kept connection may pause between two requests as long as it asks for each in time."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}") as client:
        for _ in range(2):
            assert client.get("/v1/health").status_code == 200
            time.sleep(0.2)


BEHIND = b"GET /v1/health HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 4\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding:\tchunked\r\nContent-Length: 3",
        b"Content-Length: 0\r\nContent-Length: 37",
        b"Content-Length: +5",
        b"Content-Length : 5",
        b"Transfer-Encoding: xchunked",
    ],
)
def test_nothing_is_hidden_behind_a_request(port: int, lengths: bytes) -> None:
    """A request that a proxy could end elsewhere is refused, and what follows is not answered."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        head = b"POST /v1/session HTTP/1.1\r\nHost: x\r\n" + lengths
        line.sendall(head + b"\r\n\r\n0\r\n\r\n" + BEHIND)
        line.settimeout(20)
        heard = b""
        with contextlib.suppress(ConnectionResetError):
            while piece := line.recv(1 << 16):
                heard += piece
    assert heard.count(b"HTTP/1.1 ") == 1, heard
    assert heard.startswith(b"HTTP/1.1 400")


def test_bodies_are_bounded_before_login(consortium: Consortium) -> None:
    """A body without end is refused by its announced length, or where it exceeds the limit."""
    transport = consortium.transport
    json_first = ("/v1/rounds/r1/countersignature", "/v1/rounds/r1/abort", "/v1/nowhere")
    for path, most in (
        ("/v1/challenge", MOST_LOGIN),
        ("/v1/certificate", 8 << 10),
        *((path, MOST_LOGIN) for path in json_first),
        ("/v1/exchange", MOST_REQUEST),
    ):
        for headers in (
            {},
            {"content-length": str(10**12)},
            {"content-length": "x"},
            {"content-length": "9" * 5000},
        ):
            request = httpx.Request(
                "POST", f"https://registry.test{path}", content=b" " * (most + 1)
            )
            request.headers.update(headers)
            assert transport.handle_request(request).status_code == 413
        request = httpx.Request("POST", f"https://registry.test{path}", content=b" " * (most + 1))
        del request.headers["content-length"]
        assert transport.handle_request(request).status_code in (400, 401, 404, 413)


def test_a_body_that_nobody_reads_is_not_taken_for_ever(port: int) -> None:
    """Who goes on sending after the answer is hung up on after no more than a request."""
    with socket.create_connection(("127.0.0.1", port)) as line:
        line.sendall(b"POST /v1/rounds HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
        line.settimeout(20)
        assert line.recv(1 << 12).startswith(b"HTTP/1.1 401")
        piece, sent = b"10000\r\n" + bytes(1 << 16) + b"\r\n", 0
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while sent < 64 << 20:
                sent += line.send(piece)
    assert sent < 32 << 20  # what the kernels hold comes on top


def test_no_connection_leaves_our_protocol(port: int) -> None:
    """A call for web sockets is an ordinary request, and the connection is counted to its end."""
    asked = (
        b"GET /v1/health HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port)) as line:
            line.sendall(asked)
            assert line.recv(1 << 12).startswith(b"HTTP/1.1 200")
    until = time.monotonic() + 10
    while serving._Protocol.by_address["127.0.0.1"] and time.monotonic() < until:
        time.sleep(0.01)
    assert not serving._Protocol.by_address["127.0.0.1"]


def test_no_answer_names_a_host_that_the_caller_chose(consortium: Consortium) -> None:
    """A path with a slash too many is not there, instead of being found elsewhere."""
    request = httpx.Request("GET", "https://elsewhere.test/v1/about/")
    assert consortium.transport.handle_request(request).status_code == 404
