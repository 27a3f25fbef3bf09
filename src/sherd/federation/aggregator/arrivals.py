"""Connections that have come and not finished their handshake: few, and none of them for long.

TLS needs some 300 KB for each of them before anything is known of the caller, and the server
itself would wait a minute. The oldest make room for the newest, so that callers who connect and
say nothing can neither fill the memory nor keep others out.
"""

from __future__ import annotations

import contextlib
import gc
import socket
import time
from typing import Any

MOST_ARRIVING = 128
"""The most connections whose handshake is not done."""

HANDSHAKE_SECONDS = 15.0
"""How long a handshake may take where others wait to be let in."""

_arriving: dict[Any, tuple[socket.socket, float]] = {}
"""Those that have come, by their address and port, the oldest first."""


class Listener(socket.socket):
    """A listening socket that notes whom it lets in, and hangs up on those who stay at the door."""

    _let_in = 0

    def listen(self, backlog: int = 0, /) -> None:
        """Let many wait in line, although the server lets ``backlog`` of them in at a time."""
        super().listen(max(backlog, 2048))

    def accept(self) -> tuple[socket.socket, Any]:
        """Let the next one in."""
        line, peer = super().accept()
        now = time.monotonic()
        for known, (other, came) in list(_arriving.items()):
            if other.fileno() == -1:
                del _arriving[known]
            elif now - came > HANDSHAKE_SECONDS or len(_arriving) >= MOST_ARRIVING:
                _hang_up(known)
            else:
                break
        _arriving[peer] = (line, now)
        self._let_in += 1
        if len(_arriving) >= MOST_ARRIVING and self._let_in % MOST_ARRIVING == 0:
            gc.collect()  # what TLS held for those who are gone refers to itself
        return line, peer


def arrived(peer: Any) -> None:
    """The handshake of somebody is done."""
    _arriving.pop(peer, None)


def _hang_up(peer: Any) -> None:
    line, _ = _arriving.pop(peer)
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def listeners(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen at all addresses of a host."""
    found: list[socket.socket] = []
    flags = socket.AI_PASSIVE
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=flags
        ):
            listener = Listener(family, kind, protocol)
            found.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
            listener.setblocking(False)
    except OSError:
        for each in found:
            each.close()
        raise
    return found
