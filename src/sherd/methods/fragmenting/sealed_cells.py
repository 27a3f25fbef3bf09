"""Withheld attributes as ciphertext that only the owner's key opens.

The table ``ciphertext`` has a row, a *slot*, for every tuple that all fragments hold, in an order
of its own. ``sealed_1``, ``sealed_2``, … hold the withheld attributes, and ``sealed_0`` says which
row of every fragment belongs to the slot, so that the holder of the key can put the tuples together
again and nobody else can tell which slot is whose.

- AES-256-GCM. Every release has a key of its own, derived from the owner's and a salt that the
  operating system draws, whatever the seed of the run. Column and slot are the nonce, so none is
  used twice under one key. Two releases of the same cells have nothing in common but their size.
- The associated data name the salt, the column, its attribute, the slot and how many there are: a
  cell that is moved, exchanged or taken from another release does not open, and none does where
  slots are missing.
- Every cell is filled up to ``cell_bytes``, which the plan says: lengths tell nothing, and nothing
  about them comes from the data. A longer value is refused.
- ``sealed_0`` also holds a keyed hash of the tuple's cells in the fragments: a fragment whose cells
  or rows were changed is found when the tuples are put together.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import InfeasibleError, MissingPartError, UsageError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.randomness import Randomness
    from sherd.release.private_files import CellKey
    from sherd.tables.schema import Schema

    Rows = npt.NDArray[np.int64]

TABLE = "ciphertext"
SEALED = "sealed_"
MOST_BYTES = 65_535 + 3
"""The largest cell: its length takes two bytes."""

_FORM = "sherd-cells-2"
_TAG, _HASH, _LENGTH = 16, 16, 3


def seal(
    table: pa.Table,
    orders: Sequence[Rows],
    fragments: Sequence[Sequence[str]],
    withheld: Sequence[str],
    *,
    cell_bytes: int,
    key: CellKey,
    randomness: Randomness,
) -> tuple[pa.Table, dict[str, Any]]:
    """The table of ciphertext, and what a manifest states of it.

    ``orders[f]`` are the tuples behind the rows of fragment f.
    """
    import pyarrow as pa

    place = np.full((len(orders), table.num_rows), -1, np.int64)
    for f, order in enumerate(orders):
        place[f, order] = np.arange(len(order))
    whole = np.flatnonzero((place >= 0).all(axis=0))
    slots = whole[randomness.permutation(len(whole))]
    salt = secrets.token_bytes(32)
    cipher = _Cipher(key, salt, withheld)
    hashes = _hashes(cipher.hash_key, table.take(pa.array(slots)), fragments)
    links = [
        place[:, t].astype("<u8").tobytes() + mark for t, mark in zip(slots, hashes, strict=True)
    ]
    columns = {f"{SEALED}0": cipher.sealed(0, links)}
    for at, name in enumerate(withheld, 1):
        cells = _texts(table.column(name).take(pa.array(slots)))
        padded = [_padded(cell, cell_bytes, name) for cell in cells]
        columns[f"{SEALED}{at}"] = cipher.sealed(at, padded)
    facts = {
        "attributes": list(withheld),
        "cell_bytes": cell_bytes,
        "salt": salt.hex(),
        "key_check": cipher.check,
    }
    return pa.table({name: pa.array(cells, pa.string()) for name, cells in columns.items()}), facts


def put_together(
    tables: Mapping[str, pa.Table], facts: Mapping[str, Any], schema: Schema, key: CellKey
) -> pa.Table:
    """Every tuple that all fragments hold, with all its attributes, in no particular order."""
    import pyarrow as pa

    from sherd.tables.canonical_form import cell_type

    stated = facts.get(TABLE)
    if stated is None or TABLE not in tables:
        raise UsageError(
            "this release has no ciphertext",
            must="a release made with the parameter 'withheld: ciphertext'",
            do="leave out the key",
        )
    cipher = _Cipher(key, bytes.fromhex(stated["salt"]), stated["attributes"])
    if not hmac.compare_digest(cipher.check, stated["key_check"]):
        raise UsageError(
            "this is not the key of the release", do="give the key that the release was made with"
        )
    sealed, fragments = tables[TABLE], facts["fragments"]
    held = min(tables[f"fragment-{f}"].num_rows for f in range(1, len(fragments) + 1))
    if sealed.num_rows == 0 < held:  # no cell is left that would not open
        raise _changed()
    links = cipher.opened(0, sealed.column(f"{SEALED}0"))
    places = np.array(
        [np.frombuffer(link[:-_HASH], "<u8") for link in links], dtype=np.int64
    ).reshape(len(links), len(fragments))
    columns: dict[str, Any] = {}
    for f, names in enumerate(fragments):
        part = tables[f"fragment-{f + 1}"]
        if len(links) and places[:, f].max() >= part.num_rows:
            raise _changed()
        for name in names:
            columns[name] = part.column(name).take(pa.array(places[:, f]))
    whole = pa.table(columns)
    expected = _hashes(cipher.hash_key, whole, fragments)
    if any(link[-_HASH:] != mark for link, mark in zip(links, expected, strict=True)):
        raise _changed()
    for at, name in enumerate(stated["attributes"], 1):
        cells = [_unpadded(cell) for cell in cipher.opened(at, sealed.column(f"{SEALED}{at}"))]
        column = pa.array(cells, pa.string()).cast(cell_type(schema[name]))
        whole = whole.append_column(name, column)
    return whole


def _changed() -> VerificationError:
    return VerificationError(
        "the fragments are not those that the ciphertext belongs to",
        do="get the release again; `sherd verify` says more",
    )


class _Cipher:
    """The keys of one release."""

    def __init__(self, key: CellKey, salt: bytes, attributes: Sequence[str]) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError:
            raise MissingPartError(
                "ciphertext needs the package 'cryptography'",
                do="pip install 'sherd[federation]'",
            ) from None
        self._aead = AESGCM(key.derived(salt, b"cells"))
        self._salt = salt.hex()
        self._attributes = ("", *attributes)
        self.hash_key = key.derived(salt, b"tuples")
        self.check = key.derived(salt, b"check").hex()[:32]

    def _bound(self, at: int, slots: int) -> Callable[[int], tuple[bytes, bytes]]:
        """The nonce and the associated data of each slot of a column."""
        said = f"{_FORM}\0{self._salt}\0{at}\0{self._attributes[at]}\0{slots}\0".encode()
        first = at.to_bytes(4, "big")
        return lambda slot: (first + slot.to_bytes(8, "big"), said + str(slot).encode())

    def sealed(self, at: int, cells: Sequence[bytes]) -> list[str]:
        bound, sealed = self._bound(at, len(cells)), []
        for slot, cell in enumerate(cells):
            nonce, said = bound(slot)
            sealed.append(base64.b64encode(self._aead.encrypt(nonce, cell, said)).decode())
        return sealed

    def opened(self, at: int, cells: pa.ChunkedArray) -> list[bytes]:
        from cryptography.exceptions import InvalidTag

        bound, opened = self._bound(at, len(cells)), []
        for slot, cell in enumerate(cells.to_pylist()):
            nonce, said = bound(slot)
            try:
                opened.append(
                    self._aead.decrypt(nonce, base64.b64decode(cell or "", validate=True), said)
                )
            except (InvalidTag, ValueError):
                raise VerificationError(
                    f"a cell of '{SEALED}{at}' is not as it was released",
                    do="get the release again, or make it again if an earlier version sealed it; "
                    "`sherd verify` says more",
                ) from None
        return opened


def _texts(column: pa.ChunkedArray) -> list[str | None]:
    import pyarrow as pa

    return list(column.cast(pa.string()).to_pylist())


def _padded(text: str | None, cell_bytes: int, name: str) -> bytes:
    """A missing cell as zeros; else 1, the length and the text, filled up with zeros."""
    if text is None:
        return bytes(cell_bytes)
    data = text.encode()
    if len(data) + _LENGTH > cell_bytes:
        raise InfeasibleError(
            f"a value of '{name}' does not fit into a cell of ciphertext",
            must=f"at most {cell_bytes - _LENGTH} bytes ('cell_bytes')",
            got="a longer one",
            do="raise 'cell_bytes'; all cells get that long, so that none tells its length",
        )
    return (b"\1" + len(data).to_bytes(2, "big") + data).ljust(cell_bytes, b"\0")


def _unpadded(cell: bytes) -> str | None:
    if cell[0] == 0:
        return None
    return cell[_LENGTH : _LENGTH + int.from_bytes(cell[1:_LENGTH], "big")].decode()


def _hashes(key: bytes, table: pa.Table, fragments: Sequence[Sequence[str]]) -> list[bytes]:
    """A keyed hash of every row's cells in the fragments, no two rows' texts alike.

    What parts cells is followed by a sign of the next one; within a cell it is by another.
    """
    names = [name for held in fragments for name in held]
    columns = [_texts(table.column(name)) for name in names]
    return [
        hmac.digest(key, "\0".join(map(_marked, row)).encode(), "sha256")[:_HASH]
        for row in zip(*columns, strict=True)
    ]


def _marked(text: str | None) -> str:
    return "-" if text is None else "+" + text.replace("\0", "\0~")
