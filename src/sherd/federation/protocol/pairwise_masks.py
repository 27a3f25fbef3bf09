"""Pairwise masks: owners hand in numbers of which the aggregator can read the sum alone.

Every two owners agree on a secret (X25519) that the aggregator, who relays everything, does not
know. For one question both expand it to one stream of words; the one whose name comes first adds
it to its numbers, the other subtracts it, modulo 2^64. Each owner's numbers are then uniform to
everybody who lacks one of its secrets, and in the sum of all of them the masks cancel (Bonawitz
and others 2017, without recovery of owners that drop out: a round of sums ends whole or not at
all).

A stream belongs to one plan, one question and one exchange: ``about`` names all of them, and
owners that were asked differently have masks that do not cancel. Whoever colludes with all other
owners knows all masks of the last one, and faces that one's noise alone.

>>> import numpy as np
>>> seeds = {"a": b"1" * 32, "b": b"2" * 32, "c": b"3" * 32}
>>> keys = {name: public_key(seed) for name, seed in seeds.items()}
>>> handed_in = [
...     masked(np.array([n, -n]), seed, name, keys, b"a question")
...     for n, (name, seed) in enumerate(seeds.items(), 5)
... ]
>>> total(handed_in).tolist()
[18, -18]
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import PeerError
from sherd.federation.protocol.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from numpy.typing import NDArray

WORD = 8
"""Bytes of a number, least significant first."""


def derive_key(secret: bytes, about: bytes) -> bytes:
    """A key of its own for each use of a secret."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    return HKDF(algorithm=SHA256(), length=32, salt=None, info=about).derive(secret)


def _private(seed: bytes) -> X25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(derive_key(seed, b"sherd-mask-key-1"))


def public_key(seed: bytes) -> str:
    """The public key of an owner's masks, as it stands in the plan."""
    return _private(seed).public_key().public_bytes_raw().hex()


def masked(
    numbers: NDArray[np.int64],
    seed: bytes,
    owner: str,
    keys: Mapping[str, str],
    about: bytes,
) -> bytes:
    """An owner's numbers under the masks that it shares with each of the other owners."""
    import numpy as np
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    from sherd.randomness import Randomness

    private, folded = _private(seed), numbers.astype(np.int64).view(np.uint64).copy()
    for other, key in keys.items():
        if other == owner:
            continue
        try:
            secret = private.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(key)))
        except ValueError:
            what = f"the key of {other}'s masks is not valid"
            raise PeerError(what, reason=Reason.PLAN_UNSOUND) from None
        pair = "\n".join(sorted((owner, other))).encode()
        stream = Randomness.keyed(derive_key(secret, b"sherd-mask-1\n" + pair + b"\n" + about))
        words = stream.words(len(folded))
        folded = folded + words if owner < other else folded - words
    return folded.astype("<u8").tobytes()


def total(handed_in: Sequence[bytes]) -> NDArray[np.int64]:
    """The sum of all owners' numbers, in which the masks cancel."""
    import numpy as np

    whole = np.zeros(len(handed_in[0]) // WORD, np.uint64)
    for one in handed_in:
        whole += np.frombuffer(one, "<u8")
    return whole.view(np.int64)
