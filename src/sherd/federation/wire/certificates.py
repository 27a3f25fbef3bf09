"""A small certificate authority for the channel: the aggregator's own, for its owners.

Identity in the protocol is the Ed25519 key that is pinned in every plan; certificates only
decide who may open a connection. A site that has an authority of its own uses that instead.
"""

from __future__ import annotations

import datetime
import ipaddress
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sherd.errors import PeerError

if TYPE_CHECKING:
    from collections.abc import Sequence

YEAR = datetime.timedelta(days=365)
UNREADABLE = (ValueError, UnsupportedAlgorithm, x509.InvalidVersion, x509.DuplicateExtension)
"""How the library says that bytes are no certificate, or of a kind that it does not know."""
RENEW_DAYS = 30
"""How long before a certificate ends it is renewed, and people are warned."""


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def new_key() -> bytes:
    """A private key for the channel (P-256), as PEM."""
    return _pem(ec.generate_private_key(ec.SECP256R1()))


def _load(pem: bytes) -> ec.EllipticCurvePrivateKey:
    key = load_pem_private_key(pem, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, life: datetime.timedelta
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=2))  # clocks differ
        .not_valid_after(now + life)
    )


def make_authority(name: str, *, life: datetime.timedelta = 10 * YEAR) -> tuple[bytes, bytes]:
    """A new authority: its key and its certificate, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"{name} authority")
    certificate = (
        _builder(subject, subject, key.public_key(), life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=True,
                crl_sign=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pem(key), certificate.public_bytes(Encoding.PEM)


def request(name: str, key_pem: bytes) -> bytes:
    """A request for a certificate, as PEM."""
    key = _load(key_pem)
    made = x509.CertificateSigningRequestBuilder().subject_name(_name(name))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)


def _issue(
    authority: tuple[bytes, bytes],
    key: ec.EllipticCurvePublicKey,
    name: str,
    alternatives: Sequence[x509.GeneralName],
    usage: x509.ObjectIdentifier,
    life: datetime.timedelta,
) -> bytes:
    ca_key, ca = _load(authority[0]), x509.load_pem_x509_certificate(authority[1])
    authority_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    certificate = (
        _builder(_name(name), ca.subject, key, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        .add_extension(authority_id, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    return certificate.public_bytes(Encoding.PEM)


def issue_client(
    authority: tuple[bytes, bytes], csr_pem: bytes, name: str, *, life: datetime.timedelta = YEAR
) -> bytes:
    """An owner's certificate for its request; the name is ours to give, not the request's."""
    try:
        csr = x509.load_pem_x509_csr(csr_pem)
        key = csr.public_key()
        sound = csr.is_signature_valid and isinstance(key, ec.EllipticCurvePublicKey)
    except UNREADABLE:
        sound = False
    if not sound:
        raise PeerError("the certificate request is not valid", must="signed by its own P-256 key")
    assert isinstance(key, ec.EllipticCurvePublicKey)
    usage = ExtendedKeyUsageOID.CLIENT_AUTH
    return _issue(authority, key, name, [x509.DNSName(name)], usage, life)


def issue_server(
    authority: tuple[bytes, bytes],
    key_pem: bytes,
    hosts: Sequence[str],
    *,
    life: datetime.timedelta = YEAR,
) -> bytes:
    """The service's certificate for its host names and addresses."""
    alternatives: list[x509.GeneralName] = []
    for host in hosts:
        try:
            alternatives.append(x509.IPAddress(ipaddress.ip_address(host)))
        except ValueError:
            alternatives.append(x509.DNSName(host))
    usage = ExtendedKeyUsageOID.SERVER_AUTH
    key = _load(key_pem).public_key()
    return _issue(authority, key, hosts[0], alternatives, usage, life)


def ends_at(pem: bytes) -> datetime.datetime:
    """When a certificate ends."""
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


def days_left(pem: bytes) -> int:
    """How many days a certificate is still good for, below 0 where it has ended."""
    return (ends_at(pem) - datetime.datetime.now(datetime.UTC)).days


def hosts_of(pem: bytes) -> list[str]:
    """The host names and addresses in a service's certificate."""
    extensions = x509.load_pem_x509_certificate(pem).extensions
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return [str(name.value) for name in names]


def check_issued(pem: bytes, key_pem: bytes, authority: bytes) -> None:
    """Refuse a certificate that is not of our key, not by an authority, or not good now."""
    try:
        made = x509.load_pem_x509_certificate(pem)
        issuers = x509.load_pem_x509_certificates(authority)
        sound = made.public_key() == _load(key_pem).public_key() and days_left(pem) >= 0
        sound = sound and any(_is_by(made, issuer) for issuer in issuers)
    except UNREADABLE:
        sound = False
    if not sound:
        raise PeerError(
            "the certificate is not for our key, or not signed by the aggregator's authority"
        )


def _is_by(made: x509.Certificate, issuer: x509.Certificate) -> bool:
    from cryptography.exceptions import InvalidSignature

    try:
        made.verify_directly_issued_by(issuer)
    except (InvalidSignature, TypeError, *UNREADABLE):
        return False
    return True
