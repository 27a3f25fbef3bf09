"""Matching people by identifier without showing identifiers: a chained OPRF on ristretto255.

Notation: H maps an identifier to a group element (SHA-512 with a domain tag and the plan's
hash, then the ristretto map); k_i is owner i's key for this plan; b a blind. Owner i sends
H(id)^b; every other owner raises it by its own key; owner i raises the result by k_i / b and
has H(id)^(k_1 ⋯ k_m), whose hash is the pseudonym. Nobody holds the product of the keys, so
nobody alone can compute a pseudonym of a guessed identifier; a peer or the aggregator sees
blinded points, which are uniform, and final pseudonyms.

Keys and blinds come from the owner's own seed and the plan's hash, so that an agent that was
restarted sends the same bytes again, and another plan has other keys and blinds.

``hmac`` replaces all of it by a key that every owner has: everybody who holds the key (any owner,
and the aggregator if it ever gets it) can test guessed identifiers. It is labelled so.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import mmap
import os
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import MissingPartError, PeerError
from sherd.federation.protocol.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from types import ModuleType

    from numpy.typing import NDArray

POINT = 32
"""Bytes of a group element, and of a pseudonym."""

PIECE = 4096
"""Points that a core works on at once."""

RANGE = 1 << 16
"""The most names of a list that are compared at once."""

Buffer = bytes | mmap.mmap
"""Bytes in memory, or in a mapped file."""


def _group() -> ModuleType:
    try:
        import rbcl
    except ImportError:
        raise MissingPartError(
            "linking people needs the package rbcl", do="install sherd[federation] or sherd[joint]"
        ) from None
    module: ModuleType = rbcl
    return module


def canonical_identifier(*values: object, how: str = "exact") -> bytes:
    r"""An identifier as the bytes that are hashed: Unicode NFC, no space around it.

    An identifier of several parts is all of them; ``letters`` keeps letters and digits only,
    without case and accents.

    >>> canonical_identifier(" 007 ")
    b'007'
    >>> canonical_identifier("Müller-Lüdenscheidt", "1970-01-31", how="letters")
    b'mullerludenscheidt\x1f19700131'
    """
    parts = []
    for value in values:
        text = unicodedata.normalize("NFC", str(value)).strip()
        if how == "letters":
            plain = unicodedata.normalize("NFKD", text.casefold())
            text = "".join(c for c in plain if c.isalnum())
        parts.append(text)
    return "\x1f".join(parts).encode()


def chain(owners: Sequence[str], origin: str) -> tuple[str, ...]:
    """The owners a batch visits, its origin first.

    >>> chain(("a", "b", "c"), "b")
    ('b', 'c', 'a')
    """
    start = list(owners).index(origin)
    return (*owners[start:], *owners[:start])


class Secret:
    """One owner's keys for one plan, made from its seed; never sent, never stored."""

    def __init__(self, seed: bytes, plan_hash: str) -> None:
        self._group = _group()
        self._plan = bytes.fromhex(plan_hash)
        self._seed = hmac.digest(seed, b"sherd-linkage-secret-1" + self._plan, "sha512")
        self._key = self._scalar(b"key")

    def _scalar(self, label: bytes) -> bytes:
        wide = hmac.digest(self._seed, label, "sha512")
        scalar: bytes = self._group.crypto_core_ristretto255_scalar_reduce(wide)
        return scalar

    def _blind(self, place: int) -> bytes:
        return self._scalar(b"blind" + place.to_bytes(8, "big"))

    def blind(self, identifiers: Sequence[bytes]) -> bytes:
        """The blinded group elements of the identifiers, one after the other."""
        group, tag = self._group, b"sherd-linkage-id-1" + self._plan

        def piece(start: int, end: int) -> bytes:
            parts = []
            for place in range(start, end):
                hashed = hashlib.sha512(tag + identifiers[place]).digest()
                point = group.crypto_core_ristretto255_from_hash(hashed)
                parts.append(group.crypto_scalarmult_ristretto255(self._blind(place), point))
            return b"".join(parts)

        return _spread(piece, len(identifiers))

    def raise_batch(self, batch: bytes) -> bytes:
        """Every element of somebody's batch raised by our key."""

        def piece(start: int, end: int) -> bytes:
            raised = (self._power(self._key, point) for point in _cut(batch, start, end))
            return b"".join(raised)

        return _spread(piece, _count(batch))

    def finish(self, batch: bytes) -> list[bytes]:
        """The pseudonyms of our own batch once everybody raised it, in its order."""
        tag = b"sherd-pseudonym-1" + self._plan

        def piece(start: int, end: int) -> bytes:
            exponents = self._unblinding(range(start, end))
            return b"".join(
                hashlib.sha256(tag + self._power(exponent, point)).digest()
                for exponent, point in zip(exponents, _cut(batch, start, end), strict=True)
            )

        return points(_spread(piece, _count(batch)))

    def _unblinding(self, places: range) -> list[bytes]:
        """Our key over the blind of each place: one inversion for all of them (Montgomery)."""
        multiply = self._group.crypto_core_ristretto255_scalar_mul
        blinds = [self._blind(place) for place in places]
        products = list(itertools.accumulate(blinds, multiply))
        inverse = self._group.crypto_core_ristretto255_scalar_invert(products[-1])
        rest: bytes = multiply(self._key, inverse)
        scalars = []
        for place in range(len(blinds) - 1, 0, -1):
            scalars.append(multiply(rest, products[place - 1]))
            rest = multiply(rest, blinds[place])
        return [rest, *reversed(scalars)]

    def _power(self, exponent: bytes, point: bytes) -> bytes:
        try:
            result: bytes = self._group.crypto_scalarmult_ristretto255(exponent, point)
        except RuntimeError:  # the library's word for a point that is none
            raise Reason.MALFORMED.error(
                "a batch holds something that is not a group element"
            ) from None
        return result


def _spread(work: Callable[[int, int], bytes], count: int) -> bytes:
    """The work on all places, a piece at a time on every core.

    The library lets other threads run while it computes.
    """
    bounds = [(start, min(start + PIECE, count)) for start in range(0, count, PIECE)]
    if len(bounds) <= 1:
        return b"".join(work(*each) for each in bounds)
    with ThreadPoolExecutor(max_workers=_cores()) as pool:
        return b"".join(pool.map(lambda each: work(*each), bounds))


def _cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def _count(batch: Buffer) -> int:
    """How many points a batch holds."""
    if len(batch) % POINT:
        raise PeerError(
            "a batch is cut off", must=f"a multiple of {POINT} bytes", reason=Reason.MALFORMED
        )
    return len(batch) // POINT


def _cut(batch: bytes, start: int, end: int) -> list[bytes]:
    """The points of a batch from one place to another."""
    return [batch[at : at + POINT] for at in range(start * POINT, end * POINT, POINT)]


def points(batch: bytes) -> list[bytes]:
    """The group elements or pseudonyms in a batch."""
    return _cut(batch, 0, _count(batch))


def keyed_pseudonyms(
    key: bytes, plan_hash: str, identifiers: Sequence[bytes]
) -> list[bytes]:  # low assurance
    """Pseudonyms by a key that every owner shares (``hmac``): low assurance."""
    inner = hmac.digest(key, b"sherd-linkage-hmac-1" + bytes.fromhex(plan_hash), "sha256")
    return [hmac.digest(inner, identifier, "sha256") for identifier in identifiers]


def ranges(lists: Mapping[str, Buffer]) -> Iterator[dict[str, NDArray[np.bytes_]]]:
    """The sorted lists of all owners, cut at the same names into short pieces.

    A piece has at most ``RANGE`` names of each list, whatever the names are, so that lists which
    lie in files are compared without being in memory.
    """
    arrays = {owner: listed(batch) for owner, batch in lists.items()}
    cuts = sorted({bytes(name) for names in arrays.values() for name in names[RANGE::RANGE]})
    starts = dict.fromkeys(arrays, 0)
    for cut in (*cuts, None):
        piece = {}
        for owner, names in arrays.items():
            end = len(names) if cut is None else int(np.searchsorted(names, np.bytes_(cut)))
            piece[owner] = np.array(names[starts[owner] : end])
            starts[owner] = end
        yield piece


def intersection(batches: Sequence[Buffer]) -> bytes:
    """The pseudonyms that every sorted list has, sorted.

    >>> a, b = b"a" * 32, b"b" * 32
    >>> intersection([a + b, b]) == b
    True
    """
    return common_names([listed(batch) for batch in batches]).tobytes()


def common_names(lists: Sequence[NDArray[np.bytes_]]) -> NDArray[np.bytes_]:
    """The pseudonyms that every sorted list has, of lists that are arrays."""
    first, *others = sorted(lists, key=len)
    for other in others:
        first = first[_are_in(first, other)]
    return first


def overlap(lists: Sequence[NDArray[np.bytes_]]) -> int:
    """How many pseudonyms are in more than one list."""
    merged = np.sort(np.concatenate(lists))
    again = merged[1:] == merged[:-1]
    return int(np.count_nonzero(again)) - int(np.count_nonzero(again[1:] & again[:-1]))


def listed(batch: Buffer) -> NDArray[np.bytes_]:
    """A batch as an array, which takes no more than its bytes and is ordered as they are."""
    return np.frombuffer(batch, f"S{POINT}", _count(batch))


def _are_in(some: NDArray[np.bytes_], others: NDArray[np.bytes_]) -> NDArray[np.bool_]:
    """Which elements of a list are in a sorted one, looked up a piece at a time."""
    present = np.zeros(len(some), np.bool_)
    for start in range(0, len(some) if len(others) else 0, 1 << 16):
        piece = some[start : start + (1 << 16)]
        places = np.searchsorted(others, piece)
        np.minimum(places, len(others) - 1, out=places)
        present[start : start + len(piece)] = others[places] == piece
    return present


def check_pseudonyms(batch: Buffer, count: int) -> None:
    """Refuse a list of pseudonyms that is not sorted, distinct and of the size announced."""
    names = listed(batch)
    ends = [(at, min(at + RANGE, len(names) - 1)) for at in range(0, len(names), RANGE)]
    rising = all(bool(np.all(names[at:end] < names[at + 1 : end + 1])) for at, end in ends)
    if len(names) != count or not rising:
        raise PeerError(
            "a list of pseudonyms is not valid",
            must="sorted and distinct, as many as announced",
            reason=Reason.MALFORMED,
        )
