"""TLS between parties: both show their certificate, which must be the one agreed on."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from sherd.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from sherd.secure.engine.link import Peer


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
        raise UsageError("an address does not fit", must="host:port", got=text)
    return host.strip("[]"), int(port)
