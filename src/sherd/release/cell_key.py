"""The key under which an owner's withheld cells are released: a file of its own, for nobody else.

>>> key = CellKey.generate()
>>> key.derived(b"salt", b"cells") == key.derived(b"salt", b"cells")
True
>>> key.derived(b"salt", b"cells") == key.derived(b"other", b"cells")
False
"""

from __future__ import annotations

import hmac
import re
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self

from sherd.errors import FormatError, PlanError, StorageError

if TYPE_CHECKING:
    from sherd.release.plan import Plan

_FORM = re.compile(rb"sherd-cell-key-1 ([0-9a-f]{64})\n")


@dataclass(frozen=True, kw_only=True)
class CellKey:
    """256 bits that never leave their owner; every release has keys of its own from them."""

    secret: bytes = field(repr=False)

    @classmethod
    def generate(cls) -> Self:
        """A new key."""
        return cls(secret=secrets.token_bytes(32))

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a key; refused where others may read it too."""
        path = Path(path)
        try:
            open_to_others = path.stat().st_mode & 0o077
            text = path.read_bytes()
        except OSError as error:
            raise StorageError(
                "the key cannot be read", got=f"{path}: {error.strerror}", do="check the path"
            ) from None
        if open_to_others:
            raise StorageError(
                "others may read the key", must="a file of its owner's alone", got=str(path),
                do=f"chmod 600 {path}",
            )  # fmt: skip
        found = _FORM.fullmatch(text)
        if found is None:
            raise FormatError(
                "the key's file is not one", must="a file that `sherd fragment --cell-key` made",
                got=str(path),
            )  # fmt: skip
        return cls(secret=bytes.fromhex(found[1].decode()))

    @classmethod
    def load_or_make(cls, path: str | Path) -> Self:
        """Read a key, or make one where there is no such file; none is ever written over."""
        from sherd.signing_keys import write_secret

        path = Path(path)
        if not path.exists():
            made = cls.generate()
            write_secret(path, f"sherd-cell-key-1 {made.secret.hex()}\n".encode())
        return cls.load(path)

    def derived(self, salt: bytes, purpose: bytes) -> bytes:
        """The 256 bits for one purpose in the release of this salt."""
        return hmac.digest(self.secret, bytes([len(salt)]) + salt + purpose, "sha256")


def check_cell_key(plan: Plan, key: CellKey | None) -> None:
    """Raise where a plan's ciphertext has no key, or a key has nothing to seal."""
    sealed = plan.parameters.get("withheld") == "ciphertext"
    if sealed and key is None:
        raise PlanError(
            "ciphertext needs your key",
            must="a key that you keep",
            do="give its file with --cell-key (in Python: Settings(cell_key=CellKey.load(…)))",
        )
    if key is not None and not sealed:
        raise PlanError(
            "there is a key and nothing to seal under it",
            do="add the parameter 'withheld: ciphertext', or leave the key out",
        )
