"""Signing keys: Ed25519, kept in files only their owner can read, known by fingerprints.

>>> key = SigningKey.generate()
>>> verify(key.public, b"text", key.sign(b"text"))
True
>>> verify(key.public, b"other", key.sign(b"text"))
False
"""

from __future__ import annotations

import hashlib
import os
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from sherd.errors import FormatError, MissingPartError, StorageError

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )
except ImportError:
    raise MissingPartError(
        "keys and signatures need an optional part",
        got="no module 'cryptography'",
        do="install it: pip install 'sherd[federation]'",
    ) from None

if TYPE_CHECKING:
    from pathlib import Path

_HEX_KEY = re.compile(r"[0-9a-f]{64}", re.ASCII)
_HEX_SIGNATURE = re.compile(r"[0-9a-f]{128}", re.ASCII)

_WEAK = frozenset(
    bytes.fromhex(text)
    for text in (
        "00" * 32,
        "01" + "00" * 31,
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        *(low + "ff" * 30 + "7f" for low in ("ec", "ed", "ee")),
    )
)
"""The points of small order, in every spelling, without the sign: the library takes them for keys,
of which one signature fits all texts or every second."""


class SigningKey:
    """A private Ed25519 key."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.public = raw.hex()

    @classmethod
    def generate(cls) -> SigningKey:
        """A new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """The key in a file."""
        try:
            private = load_pem_private_key(path.read_bytes(), password=None)
        except OSError as error:
            raise StorageError("the key cannot be read", got=f"{path}: {error.strerror}") from None
        except ValueError:
            raise FormatError("the file is not a private key", got=str(path)) from None
        if not isinstance(private, Ed25519PrivateKey):
            raise FormatError("the key is of another kind", must="Ed25519", got=str(path))
        return cls(private)

    def save(self, path: Path) -> None:
        """Write the key to a new file that only its owner can read."""
        pem = self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        write_secret(path, pem)

    def certificate(self, name: str) -> bytes:
        """A certificate that the key signs for itself, by which peers know its holder."""
        from cryptography import x509

        whole = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        public, now = self._private.public_key(), datetime.now(UTC)
        identifier = x509.SubjectKeyIdentifier.from_public_key(public)
        made = (
            x509.CertificateBuilder()
            .subject_name(whole)
            .issuer_name(whole)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=3650))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(identifier, critical=False)
        )
        return made.sign(self._private, None).public_bytes(Encoding.PEM)

    def sign(self, text: bytes) -> str:
        """The signature of a text, in hexadecimal; the same each time."""
        return self._private.sign(text).hex()

    def sign_plan(self, plan_hash: str) -> str:
        """The signature by which an owner agrees to a plan."""
        return self.sign(_plan_text(plan_hash))


def write_secret(path: Path, data: bytes) -> None:
    """Write a new file that only its owner can read."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise StorageError(
            "the secret cannot be written", got=f"{path}: {error.strerror}"
        ) from None


def verify(public: str, text: bytes, signature: str) -> bool:
    """Whether a signature is that key's for that text, and could only be made by its holder."""
    if not _HEX_KEY.fullmatch(public) or not _HEX_SIGNATURE.fullmatch(signature):
        return False
    raw = bytes.fromhex(public)
    if raw[:31] + bytes([raw[31] & 0x7F]) in _WEAK:
        return False
    try:
        key = Ed25519PublicKey.from_public_bytes(raw)
        key.verify(bytes.fromhex(signature), text)
    except (InvalidSignature, ValueError):
        return False
    return True


def verify_plan(public: str, plan_hash: str, signature: str) -> bool:
    """Whether an owner's key signed the plan of that hash."""
    return verify(public, _plan_text(plan_hash), signature)


def _plan_text(plan_hash: str) -> bytes:
    return b"sherd-plan-1\0" + plan_hash.encode()


def fingerprint(public: str) -> str:
    """A key's fingerprint, to be compared over another channel: 128 bits in groups of four.

    >>> fingerprint("00" * 32)
    '6668-7aad-f862-bd77-6c8f-c18b-8e9f-8e20'
    """
    digits = hashlib.sha256(bytes.fromhex(public)).hexdigest()[:32]
    return "-".join(digits[start : start + 4] for start in range(0, 32, 4))


def same_fingerprint(given: str, public: str) -> bool:
    """Whether a fingerprint as a person typed it is that key's."""
    plain = re.sub(r"[\s:-]", "", given).lower()
    return plain == fingerprint(public).replace("-", "")
