"""Matching people by identifier without showing identifiers: a chained OPRF on ristretto255.

Notation: H maps an identifier to a group element (SHA-512 with a domain tag and the plan's
hash, then the ristretto map); k_i is owner i's key for this plan; b a blind. Owner i sends
H(id)^b; every other owner raises it by its own key; owner i raises the result by k_i / b and
has H(id)^(k_1 ⋯ k_m), whose hash is the pseudonym. Nobody holds the product of the keys, so
nobody alone can compute a pseudonym of a guessed identifier; a peer or the aggregator sees
blinded points, which are uniform, and final pseudonyms.

Keys and blinds come from the owner's own seed and the plan's hash, so that an agent that was
restarted sends the same bytes again, and another plan has other keys and blinds.

``hmac`` replaces all of it by a key that every owner has: whoever holds the key (any owner,
and the aggregator if it ever gets it) can test guessed identifiers. It is labelled so.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import unicodedata
from collections.abc import Callable
from typing import TYPE_CHECKING

from sherd.errors import MissingPartError, PeerError
from sherd.federation.protocol.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

POINT = 32
"""Bytes of a group element, and of a pseudonym."""

Progress = Callable[[int, int], None]


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
        group, parts = self._group, []
        for place, identifier in enumerate(identifiers):
            tagged = b"sherd-linkage-id-1" + self._plan + identifier
            point = group.crypto_core_ristretto255_from_hash(hashlib.sha512(tagged).digest())
            parts.append(group.crypto_scalarmult_ristretto255(self._blind(place), point))
        return b"".join(parts)

    def raise_batch(self, batch: bytes) -> bytes:
        """Every element of somebody's batch raised by our key."""
        return b"".join(self._power(self._key, point) for point in points(batch))

    def finish(self, batch: bytes) -> list[bytes]:
        """The pseudonyms of our own batch once everybody raised it, in its order."""
        group, found = self._group, []
        for place, point in enumerate(points(batch)):
            inverse = group.crypto_core_ristretto255_scalar_invert(self._blind(place))
            exponent = group.crypto_core_ristretto255_scalar_mul(self._key, inverse)
            found.append(
                hashlib.sha256(
                    b"sherd-pseudonym-1" + self._plan + self._power(exponent, point)
                ).digest()
            )
        return found

    def _power(self, exponent: bytes, point: bytes) -> bytes:
        try:
            result: bytes = self._group.crypto_scalarmult_ristretto255(exponent, point)
        except RuntimeError:  # the library's word for a point that is none
            raise PeerError(
                "a batch holds what is no group element", reason=Reason.MALFORMED
            ) from None
        return result


def points(batch: bytes) -> list[bytes]:
    """The group elements or pseudonyms in a batch."""
    if len(batch) % POINT:
        raise PeerError(
            "a batch is cut off", must=f"a multiple of {POINT} bytes", reason=Reason.MALFORMED
        )
    return [batch[start : start + POINT] for start in range(0, len(batch), POINT)]


def keyed_pseudonyms(
    key: bytes, plan_hash: str, identifiers: Sequence[bytes]
) -> list[bytes]:  # low assurance
    """Pseudonyms by a key that every owner shares (``hmac``): low assurance."""
    inner = hmac.digest(key, b"sherd-linkage-hmac-1" + bytes.fromhex(plan_hash), "sha256")
    return [hmac.digest(inner, identifier, "sha256") for identifier in identifiers]


def intersection(batches: Sequence[bytes]) -> bytes:
    """The pseudonyms that every sorted list has, sorted.

    >>> a, b = b"a" * 32, b"b" * 32
    >>> intersection([a + b, b]) == b
    True
    """
    common = set(points(batches[0]))
    for batch in batches[1:]:
        common &= set(points(batch))
    return b"".join(sorted(common))


def overlap(batches: Sequence[bytes]) -> int:
    """How many pseudonyms are in more than one list."""
    seen: set[bytes] = set()
    twice: set[bytes] = set()
    for batch in batches:
        here = set(points(batch))
        twice |= here & seen
        seen |= here
    return len(twice)


def check_pseudonyms(batch: bytes, count: int) -> None:
    """Refuse a list of pseudonyms that is not sorted, distinct and of the size announced."""
    listed = points(batch)
    if len(listed) != count or any(a >= b for a, b in itertools.pairwise(listed)):
        raise PeerError(
            "a list of pseudonyms is not valid",
            must="sorted and distinct, as many as announced",
            reason=Reason.MALFORMED,
        )
