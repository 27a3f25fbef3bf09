"""Running the service: TLS, who shows which certificate, and logs without data in them."""

from __future__ import annotations

import json
import logging
import ssl
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from sherd.federation.aggregator.api import make_app

if TYPE_CHECKING:
    import asyncio
    from pathlib import Path

    from sherd.federation.aggregator.round_work import Aggregator


class ClientCertificates(StrEnum):
    """Who must show a certificate."""

    OFF = "off"
    OWNERS = "owners"
    ALL = "all"


class _Protocol(H11Protocol):
    """HTTP over a channel whose certificate the service is told about."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Note whom the channel's certificate names."""
        super().connection_made(transport)
        peer, app = _peer_name(transport), self.app

        async def with_peer(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "sherd.peer": peer}, receive, send)

        self.app = with_peer


def _peer_name(transport: asyncio.Transport) -> str | None:
    channel = transport.get_extra_info("ssl_object")
    shown = None if channel is None else channel.getpeercert()
    for kind, name in (shown or {}).get("subjectAltName", ()):
        if kind == "DNS":
            return str(name)
    return None


_FIELDS = ("path", "status", "milliseconds", "code")


class JsonLines(logging.Formatter):
    """Log records as JSON lines with a few known fields; messages are constants of ours."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line: dict[str, Any] = {"time": time, "level": record.levelname.lower()}
        ours = record.name.startswith("sherd")
        # What other libraries have to say may quote a request.
        line["event"] = record.getMessage() if ours else f"{record.name}: {record.levelname}"
        line |= {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}
        return json.dumps(line)


def set_up_logs(stream: Any = None, level: int = logging.INFO) -> None:
    """Send our log to a stream as JSON lines."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    logger = logging.getLogger("sherd.aggregator")
    logger.handlers[:] = [handler]
    logger.setLevel(level)
    logger.propagate = False


def server(
    aggregator: Aggregator,
    *,
    host: str,
    port: int,
    tls: tuple[Path, Path] | None = None,
    authority: Path | None = None,
    client_certificates: ClientCertificates = ClientCertificates.OFF,
) -> uvicorn.Server:
    """A server that is ready to run; ``tls`` is its certificate and its key."""
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
    config = uvicorn.Config(
        make_app(aggregator, certificates=checked),
        host=host,
        port=port,
        http=_Protocol,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=75,
        timeout_graceful_shutdown=2,  # owners that wait will call again
        h11_max_incomplete_event_size=64 << 10,
        **options,
    )
    return uvicorn.Server(config)
