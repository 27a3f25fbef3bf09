"""A stream of random words from a secret key: ChaCha20, with children by HMAC.

The generator is the keystream of ChaCha20 (RFC 8439) under the key, from block 0 on with a
nonce of zeros, which is safe because no key is used for anything else: children get keys of
their own, HMAC-SHA256(key, "sherd-child-1" and the child's number). ADR 0014 gives the
argument why noise from it carries a release's guarantee.
"""

from __future__ import annotations

import hashlib
import hmac
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import MissingPartError, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

KEY_BYTES = 32
_BLOCK = 1 << 16


class KeyStream:
    """The words of one key, in order; not for several threads at once."""

    __slots__ = ("_children", "_key", "_stream")

    def __init__(self, key: bytes) -> None:
        if len(key) != KEY_BYTES:
            raise UsageError(
                "the key of a random stream is of the wrong length",
                must=f"{KEY_BYTES} bytes",
                got=f"{len(key)} bytes",
            )
        self._key = key
        self._children = 0
        self._stream: Any = _encryptor(key)

    def random_raw(self, n: int) -> NDArray[np.uint64]:
        """The next n words of 64 bits."""
        out = np.empty(n, np.dtype("<u8"))
        for start in range(0, n, _BLOCK):
            part = out[start : start + _BLOCK]
            part[:] = np.frombuffer(self._stream.update(bytes(8 * len(part))), "<u8")
        return out.astype(np.uint64, copy=False)

    def spawn(self, n: int) -> list[KeyStream]:
        """The streams of n further keys, which nobody can relate to this one or each other."""
        first, self._children = self._children, self._children + n
        return [KeyStream(self._child_key(number)) for number in range(first, first + n)]

    def _child_key(self, number: int) -> bytes:
        text = b"sherd-child-1" + number.to_bytes(8, "big")
        return hmac.digest(self._key, text, hashlib.sha256)


def _encryptor(key: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    except ImportError:
        raise MissingPartError(
            "a keyed random stream needs the package cryptography",
            do="install sherd[federation]",
        ) from None
    return Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
