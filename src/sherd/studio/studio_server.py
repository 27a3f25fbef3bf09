"""The studio's server: one socket on this machine's own address, one application behind it."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import tempfile
import threading
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.applications import Starlette


def listen(host: str, port: int) -> tuple[socket.socket, str]:
    """A socket that only this machine reaches, and its address as a browser writes it."""
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError:
        address = None
    if address is None or not address.is_loopback:
        raise UsageError(
            "the studio only listens on this machine", must="127.0.0.1 or ::1", got=repr(host)
        )
    listener = socket.socket(socket.AF_INET6 if address.version == 6 else socket.AF_INET)
    try:
        listener.bind((str(address), port))
        listener.listen()  # a browser that comes before the first page is ready waits
    except OSError as error:
        listener.close()
        raise ConnectionFailedError(
            "the studio could not listen", got=f"port {port}: {error.strerror}", do="choose another"
        ) from None
    shown = f"[{address}]" if address.version == 6 else str(address)
    return listener, f"{shown}:{listener.getsockname()[1]}"


class StudioServer:
    """A studio that is ready to run; ``announce`` is told its address, and every later one."""

    def __init__(
        self,
        app: Starlette,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        most: Callable[[str], int],
        announce: Callable[[str], None],
    ) -> None:
        import uvicorn

        from sherd.studio.access_guard import Access, Guard

        self._listener, place = listen(host, port)
        hosts = frozenset({place, f"localhost:{place.rpartition(':')[2]}"})
        self._announce = announce
        self._place = place
        self.access = Access(hosts, announce=lambda secret: announce(self._address(secret)))
        # No log at all: it would hold secrets of addresses, and errors that quote cells.
        logging.getLogger("uvicorn").disabled = True
        logging.getLogger("uvicorn.error").disabled = True
        config = uvicorn.Config(
            Guard(app, self.access, most),
            log_config=None,
            access_log=False,
            server_header=False,
            lifespan="off",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)

    def _address(self, secret: str) -> str:
        return f"http://{self._place}/{secret}"

    @property
    def address(self) -> str:
        """The address that opens the studio, once."""
        return self._address(self.access.secret)

    def run(self, *, browser: bool = False) -> None:
        """Serve until Ctrl-C."""
        self._announce(self.address)
        if browser:
            threading.Thread(target=show, args=(self.address,), daemon=True).start()
        self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """End ``run`` from another thread."""
        self._server.should_exit = True


def show(address: str, *, launch: Callable[[str], Any] = webbrowser.open) -> Path:
    """Open the address in a browser by way of a private file.

    A browser's command line can be read by every user of the machine; the file cannot.
    """
    handle, name = tempfile.mkstemp(prefix="sherd-studio-", suffix=".html")
    with os.fdopen(handle, "w") as file:
        there = escape(address)
        file.write(
            f'<!DOCTYPE html><meta http-equiv="refresh" content="0;url={there}">'
            f'<title>Sherd studio</title><a href="{there}">Open the studio</a>'
        )
    path = Path(name)
    launch(path.as_uri())
    # Once opened the secret in it is used up; nobody has to wait for the file.
    timer = threading.Timer(30, lambda: path.unlink(missing_ok=True))
    timer.daemon = True
    timer.start()
    return path
