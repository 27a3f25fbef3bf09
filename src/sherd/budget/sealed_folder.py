"""A folder of files that nobody can read before they are paid for.

A release is written and synced before it is charged, so that a charge never stands for
something that could not be written. Between the two a process may be killed. So what is staged is
unreadable: its folder is its owner's alone, and every byte is combined with the key stream of a key
that is drawn for this folder and of the file's name. The key is in memory until the charge, whose
transaction puts it into the ledger; publishing opens the folder with it. Without a charge
there is no key, and the staged bytes are noise.

The stream is ChaCha20's where the package ``cryptography`` is installed, and SHAKE-256's, ten times
as slow, where it is not; the key's text says which.

The key is used once and the artefact's hash is charged with it, so nothing else is needed: a
changed file is found by its hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import importlib.util
import io
import os
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import MissingPartError
from sherd.tables.files import sync_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

BLOCK = 1 << 20
"""Bytes of key stream made at once."""

CHACHA20 = "chacha20:"
"""What a key begins with whose stream is ChaCha20's."""


def new_key() -> str:
    """A fresh key, as text."""
    known = importlib.util.find_spec("cryptography") is not None
    return (CHACHA20 if known else "") + secrets.token_hex(32)


class SealedFile(io.RawIOBase):
    """A file to write once from its beginning; counts and hashes what it was given."""

    def __init__(self, path: Path, key: str) -> None:
        super().__init__()
        self._file: IO[bytes] = path.open("xb")
        path.chmod(0o600)
        self._combined = _key_stream(key, path.name)
        self._hash = hashlib.sha256()
        self.bytes = 0

    @property
    def sha256(self) -> str:
        """The hash of what was written, before it was sealed."""
        return self._hash.hexdigest()

    def writable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """How many bytes were written."""
        return self.bytes

    def write(self, data: object) -> int:
        """Seal and write bytes."""
        given = bytes(memoryview(data))  # type: ignore[arg-type]
        self._hash.update(given)
        self._file.write(self._combined(given))
        self.bytes += len(given)
        return len(given)

    def close(self) -> None:
        """Force the file to disk."""
        if self.closed:
            return
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        finally:
            super().close()
            # What a full disk did not take was told already.
            with contextlib.suppress(OSError):
                self._file.close()


def _key_stream(key: str, name: str) -> Callable[[bytes], bytes]:
    """Combines the bytes of one file, from its first to its last, with its key stream."""
    if not key.startswith(CHACHA20):
        return _ShakeStream(key, name).combined
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    except ImportError:
        raise MissingPartError(
            "what is staged was sealed with the package cryptography, which is not installed",
            do="install sherd[federation]",
        ) from None
    # A key of its own for each file, so that the nonce may be zeros.
    drawn = bytes.fromhex(key.removeprefix(CHACHA20))
    own = hmac.digest(drawn, b"sherd-sealed-2\0" + name.encode(), hashlib.sha256)
    return Cipher(ChaCha20(own, bytes(16)), mode=None).encryptor().update


class _ShakeStream:
    """The key stream of one file: SHAKE-256 of the key, the file's name and the block's number."""

    def __init__(self, key: str, name: str) -> None:
        self._seed = f"sherd-sealed-1\0{key}\0{name}\0".encode()
        self._place = 0
        self._block = b""

    def combined(self, data: bytes) -> bytes:
        """The next bytes, sealed or opened."""
        pieces = []
        done = 0
        while done < len(data):
            number, offset = divmod(self._place, BLOCK)
            if not offset:
                seed = self._seed + number.to_bytes(8, "big")
                self._block = hashlib.shake_256(seed).digest(BLOCK)
            piece = np.frombuffer(data[done : done + BLOCK - offset], np.uint8)
            noise = np.frombuffer(self._block, np.uint8)[offset : offset + len(piece)]
            pieces.append(np.bitwise_xor(piece, noise).tobytes())
            done += len(piece)
            self._place += len(piece)
        return b"".join(pieces)


def opened(path: Path, key: str) -> bytes:
    """The contents of one sealed file."""
    return _key_stream(key, path.name)(path.read_bytes())


def unseal(sealed: Path, key: str) -> Path:
    """The files of a sealed folder, opened, in a hidden folder beside it."""
    beside = sealed.name.replace(".staged-", ".opened-")
    target = Path(tempfile.mkdtemp(dir=sealed.parent, prefix=f"{beside}."))
    try:
        for path in sorted(sealed.iterdir()):
            _unseal(path, target / path.name, key)
        target.chmod(0o755)
        sync_folder(target)
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise
    return target


def _unseal(path: Path, target: Path, key: str) -> None:
    combined = _key_stream(key, path.name)
    with path.open("rb") as source, target.open("xb") as file:
        while piece := source.read(BLOCK):
            file.write(combined(piece))
        file.flush()
        os.fsync(file.fileno())
