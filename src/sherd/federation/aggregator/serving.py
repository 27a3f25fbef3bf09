"""Running the service: TLS, who shows which certificate, and logs without data in them."""

from __future__ import annotations

import contextlib
import logging
import ssl
import threading
import time
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sherd.federation.aggregator.api import make_app
from sherd.federation.aggregator.arrivals import arrived, listeners
from sherd.federation.wire.exchange import MOST_REQUEST
from sherd.federation.wire.log_lines import send_logs

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Sequence
    from pathlib import Path

    from sherd.federation.aggregator.aggregator_home import AggregatorHome
    from sherd.federation.aggregator.bell import Bell
    from sherd.federation.aggregator.round_work import Aggregator


class ClientCertificates(StrEnum):
    """Who must show a certificate."""

    OFF = "off"
    OWNERS = "owners"
    ALL = "all"


HEADER_SECONDS = 15.0
"""How long a caller may take from connecting, or from its first byte, to the end of its headers."""

MOST_CONNECTIONS = 64
"""The most connections of one address; a reverse proxy may have more."""


class _Protocol(H11Protocol):
    """HTTP over a channel whose certificate the service is told about, with bounds for strangers.

    A connection that does not ask for anything in time is closed, and no address may hold
    more than a few, so that idle ones cannot keep others out.
    """

    by_address: ClassVar[Counter[str]] = Counter()
    unlimited: ClassVar[frozenset[str]] = frozenset(("", "127.0.0.1", "::1"))
    _due: asyncio.TimerHandle | None = None
    _address = ""
    _unread = 0
    """The bytes that came of a body whose request was answered without it."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note whom the channel's certificate names, and how many its address has."""
        super().connection_made(transport)
        peername = transport.get_extra_info("peername") or ("",)
        arrived(peername)
        self._address = str(peername[0])
        self.by_address[self._address] += 1
        if (
            self._address not in self.unlimited
            and self.by_address[self._address] > MOST_CONNECTIONS
        ):
            transport.abort()
            return
        self._wait_for_headers()
        peer, app = _peer_name(transport), self.app

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "sherd.peer": peer}, receive, send)

        self.app = with_peer

    def data_received(self, data: bytes) -> None:
        """Bytes came: once a request is whole, its headers are no longer waited for."""
        super().data_received(data)
        waits = self.cycle is None or self.cycle.response_complete
        if waits and self._due is None:
            self._wait_for_headers()
        elif not waits and self._due is not None:
            self._due.cancel()
            self._due = None
        # An honest caller may still be sending what it was refused for, and then reads why.
        answered = waits and self.conn.their_state is h11.SEND_BODY
        self._unread = self._unread + len(data) if answered else 0
        if self._unread > MOST_REQUEST:
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self.by_address[self._address] -= 1
        if not self.by_address[self._address]:
            del self.by_address[self._address]
        if self._due is not None:
            self._due.cancel()
        super().connection_lost(exc)

    def _wait_for_headers(self) -> None:
        def give_up() -> None:
            self.transport.abort()

        self._due = self.loop.call_later(HEADER_SECONDS, give_up)


def _peer_name(transport: asyncio.Transport) -> str | None:
    channel = transport.get_extra_info("ssl_object")
    shown = None if channel is None else channel.getpeercert()
    for kind, name in (shown or {}).get("subjectAltName", ()):
        if kind == "DNS":
            return str(name)
    return None


def set_up_logs(stream: Any = None, level: int = logging.INFO) -> None:
    """Send our log, and the server's warnings, to a stream as JSON lines."""
    send_logs("sherd.aggregator", "uvicorn", stream=stream, level=level)


class _Server(uvicorn.Server):
    """A server that lets nobody wait when it is to stop: owners call again."""

    def __init__(self, config: uvicorn.Config, bell: Bell) -> None:
        super().__init__(config)
        self._bell = bell

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen in our own way, which bounds how many may stand at the door."""
        if sockets is None:
            with contextlib.suppress(OSError):  # then the server's own way fails, and says so
                sockets = listeners(self.config.host, self.config.port)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer those who wait, then close."""
        self._bell.close()
        await super().shutdown(sockets)


def server(
    aggregator: Aggregator,
    *,
    host: str,
    port: int,
    tls: tuple[Path, Path] | None = None,
    authority: Path | None = None,
    client_certificates: ClientCertificates = ClientCertificates.OFF,
    proxies: Sequence[str] = (),
) -> uvicorn.Server:
    """A server that is ready to run; ``tls`` is its certificate and its key.

    ``proxies`` are addresses through which many call, and that bound their callers themselves.
    """
    checked = client_certificates is not ClientCertificates.OFF and tls is not None
    required = (
        ssl.CERT_REQUIRED
        if client_certificates is ClientCertificates.ALL
        else ssl.CERT_OPTIONAL
        if checked
        else ssl.CERT_NONE
    )
    options: dict[str, Any] = {}
    if tls is not None:
        options = {
            "ssl_certfile": str(tls[0]),
            "ssl_keyfile": str(tls[1]),
            "ssl_ca_certs": None if authority is None else str(authority),
            "ssl_cert_reqs": int(required),
        }
    app = make_app(aggregator, certificates=checked)
    unlimited = _Protocol.unlimited | set(proxies)
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        loop="asyncio",  # others would not ask our own sockets whom to let in
        http=type("_BoundedProtocol", (_Protocol,), {"unlimited": unlimited}),
        ws="none",  # another protocol would take the connection out of our bounds
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # what callers say of their address counts for nothing
        lifespan="on",
        backlog=64,  # as many are let in at once, before those who must go are gone
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,
        h11_max_incomplete_event_size=64 << 10,
        **options,
    )
    return _Server(config, app.state.service.bell)


def keep_certificate(home: AggregatorHome, made: uvicorn.Server, *, pause: float = 3600.0) -> None:
    """Renew the service's certificate before it ends, and use it for connections from then on."""
    log = logging.getLogger("sherd.aggregator")

    def look() -> None:
        while not made.started:  # before that it has read the old one, and no context to change
            time.sleep(0.05)
        while True:
            try:
                if home.renew_if_due():
                    log.info("certificate renewed")
                    if made.config.ssl is not None:
                        made.config.ssl.load_cert_chain(*(str(path) for path in home.channel))
            except Exception as error:
                log.warning("certificate not renewed", extra={"code": type(error).__name__})
            time.sleep(pause)

    threading.Thread(target=look, name="sherd-certificate", daemon=True).start()
