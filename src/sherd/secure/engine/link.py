"""The engine's link between computing parties: TLS with pinned certificates, time-outs.

Every party has a key and a self-signed certificate, and is given the others' certificates
beforehand. A connection is accepted from a holder of one of those keys and from nobody else, on
both sides. There is no link without TLS.

``framed`` writes opened shares as byte strings behind their lengths; nothing is ever pickled.

>>> unframed(framed([b"meta", b"chunk"]))
[b'meta', b'chunk']
"""

from __future__ import annotations

import contextlib
import ssl
import struct
import threading
import weakref
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

    signing = SigningKey.generate()
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    signing.save(key)
    certificate.write_bytes(signing.certificate(name))
    return key, certificate


def connect(peers: Sequence[Peer], rank: int, key: Path, *, timeout: float) -> Any:
    """Join the others; raises where somebody does not come in time or has the wrong key."""
    from sherd.secure.engine.spu_engine import load_spu
    from sherd.secure.engine.tunnel import Tunnel, unreachable

    spu = load_spu()
    for path in (key, *(peer.certificate for peer in peers)):
        if not path.is_file():
            raise UsageError("a key or certificate is missing", got=str(path))
    tunnel = Tunnel(peers, rank, key, timeout=timeout)
    description = spu.libspu.link.Desc()
    description.recv_timeout_ms = int(1000 * timeout)
    # A message that is not taken is sent four times in all, with nine seconds of pauses.
    description.http_timeout_ms = max(2000, int(250 * timeout))
    description.connect_retry_times = max(1, int(timeout * 2))
    description.connect_retry_interval_ms = 500
    for peer, address in zip(peers, tunnel.addresses, strict=True):
        description.add_party(peer.name, address)
    tunnel.open()
    link = within(timeout, lambda: spu.libspu.link.create_brpc(description, rank))
    if link is None:
        tunnel.close()
        raise unreachable([peer.name for i, peer in enumerate(peers) if i != rank], timeout)
    weakref.finalize(link, tunnel.close)  # SPU's link is in use as long as anybody has it
    return link


def within(timeout: float, make: Callable[[], Any]) -> Any:
    """What is made in time, else None: SPU's own waits take longer than said, or never end."""
    results: list[Any] = []

    def attempt() -> None:
        with contextlib.suppress(RuntimeError):
            results.append(make())

    thread = threading.Thread(target=attempt, daemon=True)
    thread.start()
    thread.join(timeout)
    return results[0] if results else None


def tls_context(
    protocol: int, certificate: Path, key: Path, trusted: Sequence[Peer]
) -> ssl.SSLContext:
    """TLS 1.3 with one's own certificate; only holders of the trusted ones' keys get through."""
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # the certificate itself is compared
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(certificate, key)
    for peer in trusted:
        context.load_verify_locations(peer.certificate)
    return context


def certificate_bytes(certificate: Path) -> bytes:
    """A certificate as it is shown in a connection, to be compared byte for byte."""
    return ssl.PEM_cert_to_DER_cert(certificate.read_text(encoding="ascii"))


def address_of(text: str) -> tuple[str, int]:
    """Host and port.

    >>> address_of("127.0.0.1:9530"), address_of("[::1]:9530")
    (('127.0.0.1', 9530), ('::1', 9530))
    """
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError("an address is not valid", must="host:port", got=text)
    return host.strip("[]"), int(port)


def framed(parts: Sequence[bytes]) -> bytes:
    """Byte strings behind their lengths."""
    return b"".join(struct.pack(">Q", len(part)) + part for part in parts)


def unframed(frame: bytes) -> list[bytes]:
    """The byte strings of a frame, or an error where it is malformed."""
    parts, place = [], 0
    while place + 8 <= len(frame):
        (length,) = struct.unpack_from(">Q", frame, place)
        place += 8
        if length > len(frame) - place:
            break
        parts.append(frame[place : place + length])
        place += length
    else:
        if place == len(frame) and len(parts) >= 2:
            return parts
    raise unreadable("framed shares")


def unreadable(must: str) -> ConnectionFailedError:
    """The error of bytes that are not the shares that are due."""
    return ConnectionFailedError(
        "another party sent a message that cannot be read",
        must=must,
        do="check that all parties run the same version",
    )
