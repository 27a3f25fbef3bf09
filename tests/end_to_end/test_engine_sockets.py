"""The ports of the engines themselves, attacked by code that shares none with them.

An outsider has no key that was agreed on; a fellow party has one, and sends what it likes.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from parties import joint_python
from processes import free_port
from secure import SecureParties

import sherd
from sherd.secure.engine.link import make_key

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(300)
HEADER = struct.Struct("<qI")
WIDTH = 12
"""Bytes of a number of MPyC's field for 64 bits, see ``test_what_a_share_is``."""

VICTIM = """
import json, sys, time
from pathlib import Path
import numpy as np
from sherd.errors import SherdError
from sherd.secure.engine import mpyc_wire
from sherd.secure.engine.link import Peer
from sherd.secure.engine.mpyc_engine import MpycEngine
mpyc_wire.MOST_WAITING = 1 << 20
folder, rank, ports = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
peers = [Peer(name=f"p{i}", address=f"127.0.0.1:{port}", certificate=folder / f"p{i}.pem")
         for i, port in enumerate(ports)]
class Words:
    def words(self, n):
        return np.zeros(n, np.uint64)
engine = MpycEngine(peers, rank, folder / f"p{rank}.key", Words(), timeout=40, longest_wait=6)
try:
    engine.connect()
    if rank:
        told = engine._mpc.parties[0].protocol is not None
    else:
        x = engine.share(0, lambda: np.arange(3), (3,))
        told = engine.open(engine.multiply(x, x), "a test").tolist()
except SherdError as error:
    told = f"{type(error).__name__}: {error}"
print(json.dumps(told))
"""


def say(port: int, raw: bytes, context: ssl.SSLContext | None = None) -> bytes:
    """What is answered to bytes; nothing where the connection ends or stays silent."""
    heard = b""
    with contextlib.suppress(OSError):
        plain: socket.socket = socket.create_connection(("127.0.0.1", port), 5)
        with plain if context is None else context.wrap_socket(plain) as line:
            line.settimeout(2)
            line.sendall(raw)
            while piece := line.recv(1 << 16):
                heard += piece
    return heard


def stranger(folder: Path) -> ssl.SSLContext:
    """TLS with a key that nobody agreed on."""
    key, certificate = make_key(folder, "stranger")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(certificate, key)
    return context


PUSH = json.dumps({"sender_rank": 1, "key": "root:P2P-1:1->0", "value": "T1VUU0lERVI="}).encode()
ASKED = [
    b"GET /status HTTP/1.1\r\nHost: x\r\n\r\n",
    b"POST /org.interconnection.link.ReceiverService/Push HTTP/1.1\r\nHost: x\r\n"
    b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (len(PUSH), PUSH),
    b"PRPC" + struct.pack(">II", 2**31, 2**30),
    os.urandom(500),
]
"""What SPU's server answers where it hears it: pages, shares of others, its own frames."""


@pytest.fixture(params=["spu", pytest.param("mpyc", id="mpyc")])
def computing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SecureParties]:
    """Two or three parties that are joined by an engine."""
    if request.param == "spu":
        made = SecureParties(joint_python(), 2, tmp_path)
    else:
        pytest.importorskip("mpyc")
        made = SecureParties(sys.executable, 3, tmp_path, "mpyc")
    yield made
    made.stop()


def test_nobody_without_an_agreed_key_is_heard(computing: SecureParties, tmp_path: Path) -> None:
    """In plain, by TLS without and with another key, while parties join and while they compute."""
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname, bare.verify_mode = False, ssl.CERT_NONE
    other, over = stranger(tmp_path), threading.Event()
    heard: list[bytes] = []

    def bother() -> None:
        while not over.is_set():
            for port in computing.ports:
                heard.extend(say(port, raw, c) for raw in ASKED for c in (None, bare, other))

    thread = threading.Thread(target=bother)
    idle = [socket.socket() for _ in range(150)]
    for line, port in zip(idle, computing.ports * 75, strict=False):
        line.setblocking(False)
        line.connect_ex(("127.0.0.1", port))
    thread.start()
    try:
        values = [[3, -7, 5], [0, 9, 9]]
        case = {"do": "operations", "values": values}
        answers = [computing.run(case) for _ in range(2)]
    finally:
        over.set()
        thread.join()
        for line in idle:
            line.close()
    known = [answer[:-2] for run in answers for answer in run]  # the last two are random
    assert all(one == known[0] for one in known)
    assert known[0][0] == values
    assert set(heard) == {b""}


class Fellow:
    """Parties 1 and 2 of a computation, who hold the right keys, played by hand."""

    def __init__(self, folder: Path, ports: list[int], reply: Any) -> None:
        self._reply = reply
        self._listening = [socket.create_server(("127.0.0.1", port)) for port in ports[1:]]
        for place, server in enumerate(self._listening, 1):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(folder / f"p{place}.pem", folder / f"p{place}.key")
            threading.Thread(target=self._play, args=(server, context), daemon=True).start()

    def _play(self, server: socket.socket, context: ssl.SSLContext) -> None:
        with contextlib.suppress(OSError):
            plain, _ = server.accept()
            with context.wrap_socket(plain, server_side=True) as line:
                assert line.recv(2) == b"\0\0"
                held = b""
                while piece := line.recv(1 << 16):
                    held += piece
                    while len(held) >= HEADER.size:
                        counter, size = HEADER.unpack_from(held)
                        if len(held) < HEADER.size + size:
                            break
                        held = held[HEADER.size + size :]
                        line.sendall(self._reply(counter, size))

    def close(self) -> None:
        """Leave."""
        for server in self._listening:
            server.close()


def framed(counter: int, payload: bytes) -> bytes:
    """A message of MPyC's."""
    return HEADER.pack(counter, len(payload)) + payload


class Touch:
    """A pickle that makes a file where it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (self.path,)


def attacks(folder: Path) -> dict[str, Any]:
    """By name: what a fellow party answers to a message of the victim."""
    evil = pickle.dumps(Touch(str(folder / "taken-over")))
    return {
        "pickle": lambda counter, _size: framed(counter, evil),
        "padded pickle": lambda counter, _size: framed(counter, evil.ljust(WIDTH * 40, b".")),
        "half a frame": lambda counter, size: framed(counter, bytes(size))[:-1],
        "huge length": lambda counter, _size: HEADER.pack(counter, 2**32 - 1) + bytes(100),
        "twice": lambda counter, size: 2 * framed(counter + 1, bytes(size)),
        "flood": lambda _counter, _size: b"".join(framed(-i, bytes(8)) for i in range(5000)),
        "garbage": lambda _counter, _size: os.urandom(3000),
        "too few": lambda counter, size: framed(counter, bytes(size - WIDTH)),
        "too many": lambda counter, size: framed(counter, bytes(size + WIDTH)),
        "nothing in it": lambda counter, _size: framed(counter, b""),
        "no numbers of the field": lambda counter, size: framed(counter, b"\xff" * size),
        "silence": lambda _counter, _size: b"",
    }


@pytest.mark.parametrize("name", attacks(Path()))
def test_a_fellow_party_of_mpyc(tmp_path: Path, name: str) -> None:
    """It runs no code here, takes no memory, and keeps nobody waiting for ever."""
    pytest.importorskip("mpyc")
    for place in range(3):
        make_key(tmp_path, f"p{place}")
    ports = [free_port() for _ in range(3)]
    fellow = Fellow(tmp_path, ports, attacks(tmp_path)[name])
    began = time.monotonic()
    try:
        ran = subprocess.run(
            [sys.executable, "-c", VICTIM, str(tmp_path), "0", *map(str, ports)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "PYTHONPATH": str(Path(sherd.__file__).parent.parent)},
        )
    finally:
        fellow.close()
    assert not (tmp_path / "taken-over").exists()
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]).startswith("ConnectionFailedError"), ran.stdout
    assert "Traceback" not in ran.stderr
    assert time.monotonic() - began < 90


def test_what_a_share_is() -> None:
    """The width that the attacks above are cut to is that of the field."""
    pytest.importorskip("mpyc")
    code = (
        "from sherd.secure.engine.mpyc_engine import load_mpyc;"
        "m = load_mpyc().mpc.SecInt(64).field.modulus; print(-(-m.bit_length() // 8))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout.splitlines()[-1]) == WIDTH
