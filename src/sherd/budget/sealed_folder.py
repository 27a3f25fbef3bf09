"""A folder of files that nobody can read before they are paid for.

A release is written and synced before it is charged, so that a charge never stands for
something that could not be written. Between the two a process may be killed. So what is staged is
unreadable: its folder is its owner's alone, and every byte is combined with a key stream
(SHAKE-256 of a key that is drawn for this folder, the file's name and the block's number). The key
is in memory until the charge, whose transaction puts it into the ledger; whoever publishes opens
the folder with it. Without a charge there is no key, and the staged bytes are noise.

The key is used once and the artefact's hash is charged with it, so nothing else is needed: a
changed file is found by its hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import secrets
import shutil
import tempfile
from typing import TYPE_CHECKING

import numpy as np

from sherd.tables.files import sync_folder

if TYPE_CHECKING:
    from pathlib import Path
    from typing import IO

BLOCK = 1 << 20
"""Bytes of key stream made at once."""


def new_key() -> str:
    """A fresh key, as text."""
    return secrets.token_hex(32)


class SealedFile(io.RawIOBase):
    """A file to write once from its beginning; counts and hashes what it was given."""

    def __init__(self, path: Path, key: str) -> None:
        super().__init__()
        self._file: IO[bytes] = path.open("xb")
        path.chmod(0o600)
        self._stream = _Stream(key, path.name)
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
        self._file.write(self._stream.combined(given, self.bytes))
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


class _Stream:
    """The key stream of one file."""

    def __init__(self, key: str, name: str) -> None:
        self._seed = f"sherd-sealed-1\0{key}\0{name}\0".encode()
        self._number = -1
        self._block = b""

    def combined(self, data: bytes, start: int) -> bytes:
        """Bytes from a place on, sealed or opened."""
        pieces = []
        done = 0
        while done < len(data):
            number, offset = divmod(start + done, BLOCK)
            piece = data[done : done + BLOCK - offset]
            noise = self._noise(number)[offset : offset + len(piece)]
            pieces.append(
                np.bitwise_xor(
                    np.frombuffer(piece, np.uint8), np.frombuffer(noise, np.uint8)
                ).tobytes()
            )
            done += len(piece)
        return b"".join(pieces)

    def _noise(self, number: int) -> bytes:
        if number != self._number:
            self._block = hashlib.shake_256(self._seed + number.to_bytes(8, "big")).digest(BLOCK)
            self._number = number
        return self._block


def opened(path: Path, key: str) -> bytes:
    """The contents of one sealed file."""
    return _Stream(key, path.name).combined(path.read_bytes(), 0)


def unseal(sealed: Path, key: str) -> Path:
    """The files of a sealed folder, opened, in a hidden folder beside it."""
    beside = sealed.name.replace(".staged-", ".opened-")
    target = sealed.parent.joinpath(tempfile.mkdtemp(dir=sealed.parent, prefix=f"{beside}."))
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
    stream, start = _Stream(key, path.name), 0
    with path.open("rb") as source, target.open("xb") as file:
        while piece := source.read(BLOCK):
            file.write(stream.combined(piece, start))
            start += len(piece)
        file.flush()
        os.fsync(file.fileno())
