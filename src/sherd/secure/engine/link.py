"""The engine's link between computing parties: TLS with pinned certificates, time-outs.

Every party has a key and a self-signed certificate, and is given the others' certificates
beforehand. A connection is accepted from a holder of one of those keys and from nobody else, on
both sides. There is no link without TLS.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import ConnectionFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Peer:
    """A party as the others know it."""

    name: str
    address: str
    certificate: Path


def make_key(folder: Path, name: str) -> tuple[Path, Path]:
    """A new key, readable by its owner only, and its certificate, in a folder."""
    from sherd.signing_keys import SigningKey

    made = SigningKey.generate()
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    made.save(key)
    certificate.write_bytes(made.certificate(name))
    return key, certificate


def connect(peers: Sequence[Peer], rank: int, key: Path, *, timeout: float) -> Any:
    """Join the others; raises where somebody does not come in time or has the wrong key."""
    from sherd.secure.engine.spu_engine import load_spu

    spu = load_spu()
    for path in (key, *(peer.certificate for peer in peers)):
        if not path.is_file():
            raise UsageError("a key or certificate is not there", got=str(path))
    description = spu.libspu.link.Desc()
    description.recv_timeout_ms = int(1000 * timeout)
    # A message that is not taken is sent four times in all, with nine seconds of pauses.
    description.http_timeout_ms = max(2000, int(250 * timeout))
    description.connect_retry_times = max(1, int(timeout * 2))
    description.connect_retry_interval_ms = 500
    for peer in peers:
        description.add_party(peer.name, peer.address)
    description.enable_ssl = True
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as trusted:
        for place, peer in enumerate(peers):
            if place != rank:
                trusted.write(peer.certificate.read_text())
        trusted.flush()
        for side in (description.client_ssl_opts, description.server_ssl_opts):
            side.cert.certificate_path = str(peers[rank].certificate)
            side.cert.private_key_path = str(key)
            side.verify.verify_depth = 1
            side.verify.ca_file_path = trusted.name
        link = within(timeout, lambda: spu.libspu.link.create_brpc(description, rank))
    if link is None:
        others = ", ".join(peer.name for i, peer in enumerate(peers) if i != rank)
        raise ConnectionFailedError(
            "the other parties could not be reached",
            must=f"running, reachable and holding the agreed keys: {others}",
            got=f"no connection within {timeout:g} s",
            do="compare addresses and certificates, then start all parties again",
        )
    return link


def within(timeout: float, make: Callable[[], Any]) -> Any:
    """What is made in time, else None: SPU's own waits take longer than said, or never end."""
    made: list[Any] = []

    def attempt() -> None:
        with contextlib.suppress(RuntimeError):
            made.append(make())

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout)
    return made[0] if made else None
