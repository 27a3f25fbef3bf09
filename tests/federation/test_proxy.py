"""HAProxy and nginx with the settings that we ship and show, before real aggregators."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from processes import Village, add_owners, free_port, make_database, wait_until

from sherd.federation.aggregator.arrivals import HANDSHAKE_SECONDS
from sherd.federation.aggregator.serving import MOST_CONNECTIONS
from sherd.federation.protocol.joint_plan import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SETTINGS = Path(__file__).parents[2] / "deploy" / "haproxy.cfg"
BEHIND = "127.0.0.77"
"""The address from which the proxy calls the aggregator."""


class Proxy:
    """A proxy as a process, with the given settings but for addresses and folders."""

    def __init__(self, port: int, folder: Path, settings: str, changes: dict[str, str]) -> None:
        self.port = port
        self.log = folder / "proxy.log"
        for shipped, here in changes.items():
            assert shipped in settings, shipped
            settings = settings.replace(shipped, here)
        self.settings = folder / "proxy.conf"
        self.settings.write_text(settings, encoding="utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *command: str) -> None:
        """Begin with an empty table of callers."""
        self.stop()
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        wait_until(self._listens, "the proxy listens", 20)

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
            return True
        return False

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(20)


def program(name: str, require_or_skip: Callable[[str], None]) -> str:
    """A program that Debian keeps off the path of ordinary users."""
    path = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if path is None:
        require_or_skip(f"{name} is not installed")
    assert path is not None
    return path


@pytest.fixture
def haproxy(require_or_skip: Callable[[str], None]) -> str:
    """HAProxy's program."""
    return program("haproxy", require_or_skip)


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str | None:
    """A database on PostgreSQL, for a test that says so."""
    if not hasattr(request, "param"):
        return None
    return make_database(request.getfixturevalue("postgresql"), request.param)


@pytest.fixture
def deployed(
    haproxy: str, database: str | None, quick_path: Path
) -> Iterator[tuple[Village, Proxy]]:
    """An aggregator that is told of the proxy before it."""
    service = free_port()
    port = free_port()
    changes = {
        "bind :8443": f"bind 127.0.0.1:{port}",
        "server aggregator aggregator:8470": f"server aggregator 127.0.0.1:{service} "
        f"source {BEHIND}",
    }
    proxy = Proxy(port, quick_path, SETTINGS.read_text(encoding="utf-8"), changes)
    village = Village(
        quick_path,
        database,
        port=service,
        url=f"https://127.0.0.1:{proxy.port}",
        serve=["--proxy", BEHIND],
    )
    village.start("aggregator")
    proxy.start(haproxy, "-db", "-f", str(proxy.settings))
    yield village, proxy
    proxy.stop()
    village.close()


def test_the_shipped_settings_are_valid(haproxy: str, tmp_path: Path) -> None:
    """HAProxy reads them without a warning; the aggregator's name is known where it runs."""
    settings = tmp_path / "haproxy.cfg"
    settings.write_text(SETTINGS.read_text(encoding="utf-8").replace("aggregator:", "127.0.0.1:"))
    looked = subprocess.run(
        [haproxy, "-c", "-f", str(settings)], capture_output=True, text=True, check=False
    )
    assert looked.returncode == 0, looked.stderr
    assert "WARNING" not in looked.stderr, looked.stderr


@pytest.mark.parametrize("database", ["behind_a_proxy"], indirect=True)
def test_a_round_through_the_proxy(deployed: tuple[Village, Proxy]) -> None:
    """Owners show their certificates through it, and go on when the aggregator was stopped."""
    village, proxy = deployed
    add_owners(village, Kind.HORIZONTAL, 40)
    for owner in village.homes:
        village.start(owner)
    with village.client() as client:
        for path in ("/healthz", "/readyz"):
            assert client.get(f"{village.url}{path}").status_code == httpx.codes.OK, path
    village.open_round()
    village.check_released()
    process = village.running["aggregator"]
    os.kill(process.pid, signal.SIGTERM)
    assert process.wait(30) == 0
    village.start("aggregator")
    village.open_round("r2")
    village.check_released("r2")
    # The proxy alone sees who calls, so it writes that down.
    assert re.search(
        r"^127\.0\.0\.1:\d+ .* world aggregator/aggregator ", proxy.log.read_text(), re.MULTILINE
    )


class Caller:
    """Connections from one address of this machine, through TLS where they are to be heard."""

    def __init__(self, village: Village, proxy: Proxy, address: str) -> None:
        self._context = ssl.create_default_context(cafile=str(village.premises.authority))
        self._proxy, self._address = proxy, address
        self._open: list[socket.socket] = []

    def connect(self) -> socket.socket:
        """A connection on which nothing was said."""
        line = socket.create_connection(
            ("127.0.0.1", self._proxy.port), timeout=20, source_address=(self._address, 0)
        )
        self._open.append(line)
        return line

    def begin(self) -> ssl.SSLSocket:
        """A connection on which TLS has begun."""
        line = self._context.wrap_socket(socket.socket(), server_hostname="127.0.0.1")
        self._open.append(line)  # first, since it may be hung up on at any moment
        line.settimeout(20)
        line.bind((self._address, 0))
        line.connect(("127.0.0.1", self._proxy.port))
        return line

    def ask(self, line: ssl.SSLSocket, *headers: str) -> bytes:
        """The status that a request on a connection gets."""
        lines = ["GET /healthz HTTP/1.1", "Host: x", *headers, "", ""]
        line.sendall("\r\n".join(lines).encode())
        return line.recv(1 << 12).split(b"\r\n")[0]

    def is_served(self) -> bool:
        """Whether one more connection, which is kept, gets an answer."""
        try:
            return self.ask(self.begin()) == b"HTTP/1.1 200 OK"
        except OSError:
            return False

    def refused(self, say: bytes = b"") -> bool:
        """Whether the proxy hangs up on somebody who says this first."""
        try:
            line = self.connect()
            line.sendall(say)
            return line.recv(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        """Hang up."""
        while self._open:
            self._open.pop().close()


def test_each_address_is_bounded_and_none_is_taken_on_trust(
    deployed: tuple[Village, Proxy],
) -> None:
    """One address holds a few connections, others are served, and nobody speaks for another."""
    village, proxy = deployed
    greedy, other = (Caller(village, proxy, f"127.0.0.{last}") for last in (9, 10))
    held = [greedy.begin() for _ in range(MOST_CONNECTIONS)]
    feigned = "X-Forwarded-For: 127.0.0.10", "X-Real-IP: 127.0.0.10", "Forwarded: for=127.0.0.10"
    assert greedy.ask(held[-1], *feigned) == b"HTTP/1.1 200 OK"
    assert greedy.refused()
    assert greedy.refused(b"PROXY TCP4 127.0.0.10 127.0.0.1 1024 8443\r\n")
    # More of them than one address may have at the aggregator, which was told of its proxy.
    assert other.ask(other.begin()) == b"HTTP/1.1 200 OK"
    assert other.refused(b"PROXY TCP4 127.0.0.11 127.0.0.1 1024 8443\r\n"), "believed"
    assert other.refused(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    for caller in (greedy, other):
        caller.close()


def test_an_aggregator_that_was_not_told_of_its_proxy(deployed: tuple[Village, Proxy]) -> None:
    """It takes all callers for one, who gets the connections of one address."""
    village, proxy = deployed
    village.serve = ()
    village.start("aggregator")
    waiting = Caller(village, proxy, "127.0.0.8")
    wait_until(waiting.is_served, "the proxy has noticed", 30)
    waiting.close()
    callers = [Caller(village, proxy, f"127.0.0.{last}") for last in (9, 10)]
    answered = [caller.is_served() for caller in callers for _ in range(MOST_CONNECTIONS // 2 + 5)]
    assert MOST_CONNECTIONS - 5 <= sum(answered) <= MOST_CONNECTIONS
    for caller in callers:
        caller.close()


def test_many_connections_one_after_the_other_and_silent_ones(
    deployed: tuple[Village, Proxy],
) -> None:
    """Both are ended at the proxy; the aggregator does not hear of them."""
    village, proxy = deployed
    hasty, silent = (Caller(village, proxy, f"127.0.0.{last}") for last in (9, 10))
    began = time.monotonic()
    assert silent.refused()
    assert time.monotonic() - began < HANDSHAKE_SECONDS, "the aggregator ended it"
    assert silent.refused(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    wait_until(lambda: "127.0.0.10:" in proxy.log.read_text(), "it is logged", 10)
    assert re.search(r"^127\.0\.0\.10:.* world world/<NOSRV>", proxy.log.read_text(), re.MULTILINE)
    for _ in range(400):
        with contextlib.suppress(ConnectionError):
            hasty.connect()
        hasty.close()
    assert not hasty.is_served()
    assert silent.is_served()
    for caller in (hasty, silent):
        caller.close()


PAGE = Path(__file__).parents[2] / "docs" / "federation" / "three-organisations.md"


def test_a_round_through_nginx(quick_path: Path, require_or_skip: Callable[[str], None]) -> None:
    """With the settings of the page: owners show certificates there, analysts need none."""
    nginx = program("nginx", require_or_skip)
    (shown,) = re.findall(r"^```nginx\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    port, service = free_port(), free_port()
    village = Village(quick_path, port=service, url=f"https://127.0.0.1:{port}", plain=True)
    village.premises.renew()
    places = "".join(
        f"{name}_temp_path {quick_path}/nginx-{name};"
        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    around = (
        f"daemon off; master_process off; pid {quick_path}/nginx.pid; error_log stderr;\n"
        f"events {{}}\nhttp {{ access_log off; {places}\n{{shown}}\n}}\n"
    )
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "127.0.0.1:8470": f"127.0.0.1:{service}",
        "/srv/aggregator": str(village.premises.folder),
    }
    proxy = Proxy(port, quick_path, around.replace("{shown}", shown), changes)
    try:
        proxy.start(nginx, "-p", str(quick_path), "-c", str(proxy.settings))
        village.start("aggregator")
        add_owners(village, Kind.HORIZONTAL, 40)
        for owner in village.homes:
            village.start(owner)
        village.open_round()
        village.check_released()
        token = (village.premises.folder / "operator.token").read_text()
        headers = {"Authorization": f"Bearer {token}"}
        with village.client() as client:  # which has no certificate
            manifest = f"{village.url}/v1/rounds/r1/release/manifest.json"
            assert client.get(manifest, headers=headers).status_code == httpx.codes.OK
            for method, path in owners_routes():
                answer = client.request(method, f"{village.url}{path}")
                assert answer.status_code == httpx.codes.FORBIDDEN, path
                assert "nginx" in answer.text, path
    finally:
        proxy.stop()
        village.close()


def owners_routes() -> list[tuple[str, str]]:
    """The routes that the reference opens to owners in the round and to nobody else."""
    listed = []
    for line in (PAGE.parent / "routes.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `") and cells[2:5] == ["401", "403", "403"]:
            method, path = cells[0].strip("`").split(" ")
            listed.append((method, path.format(round_id="r1", sha256="0" * 64)))
    assert len(listed) >= 7
    return [*listed, ("POST", "/v1/session")]
