"""Rounds of sums: how a horizontal round differs where its method asks for sums alone.

After the plan is signed, the aggregator puts questions to all owners at once, as the method says
(``sherd.release.summed_rows``); each owner answers under pairwise masks, and the sum leads to the
next question. All owners of the plan answer every question, or nothing is released.

Under pairwise masks, owners hand in numbers of which the aggregator can read the sum alone. Every
two owners agree on a secret (X25519) that the aggregator, who relays everything, does not
know. For one question both expand it to one stream of words; the one whose name comes first adds
it to its numbers, the other subtracts it, modulo 2^64. Each owner's numbers are then uniform to
everybody who lacks one of its secrets, and in the sum of all of them the masks cancel (Bonawitz
and others 2017, without recovery of owners that drop out: a round of sums ends whole or not at
all).

A stream belongs to one plan, one question and one exchange: ``about`` names all of them, and
owners that were asked differently have masks that do not cancel. An aggregator that colludes with
all owners but one knows all masks of that one, and faces its noise alone.

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

from typing import TYPE_CHECKING, Any

from sherd.errors import PlanError
from sherd.federation.protocol.joint_plan import HASH, Kind
from sherd.federation.protocol.messages import Masked
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.release.summed_rows import RowOwners, SumsRows
from sherd.values import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from numpy.typing import NDArray

    from sherd.federation.protocol.joint_plan import JointPlan, Terms
    from sherd.federation.protocol.knowledge import OwnerData, RoundData
    from sherd.federation.protocol.messages import Ask


MOST_QUESTION = 1 << 24
"""The most bytes of a question."""


def sums_rows(terms: Terms) -> bool:
    """Whether a round of these terms is one of sums."""
    from sherd.release.method import find

    return terms.kind is Kind.HORIZONTAL and isinstance(find(terms.method), SumsRows)


def method_of(plan: JointPlan) -> SumsRows:
    """The method of a round of sums."""
    from sherd.release.method import find

    method = find(plan.terms.method)
    assert isinstance(method, SumsRows)
    return method


def among(plan: JointPlan) -> RowOwners:
    """Who has the rows: all owners of the plan; all but one may collude where none are named."""
    owners = len(plan.shares)
    named = plan.terms.colluders
    return RowOwners(
        owners=owners,
        colluders=owners - 1 if named is None else min(named, owners - 1),
        rows=sum(share.rows for share in plan.shares),
    )


def mask_keys(plan: JointPlan) -> dict[str, str]:
    """The public keys of all owners' masks."""
    return {share.owner: share.mask_key or "" for share in plan.shares}


def unsound_sums(plan: JointPlan) -> str | None:
    """What is wrong with a plan as one of a round of sums, or as one that is none."""
    given = [share.mask_key for share in plan.shares]
    if not sums_rows(plan.terms):
        return "the plan has keys of masks for nothing" if any(given) else None
    if not all(key and HASH.fullmatch(key) for key in given) or len(set(given)) < len(given):
        return "the plan lacks an owner's own key of its masks"
    owner = plan.owners[0]
    method_of(plan).check_rows(plan.local(owner), plan.schema(owner))
    return None


def read_question(raw: bytes) -> dict[str, Any]:
    """The question in bytes that the aggregator sent."""
    try:
        data = read_json(raw)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise PlanError("a question cannot be read", must="JSON")
    return data


def about(plan: JointPlan, exchange: int, question: str) -> bytes:
    """What the masks of one answer belong to: this plan, this exchange, this very question."""
    return f"{plan.hash}\n{exchange}\n{question}".encode()


def check_ask(data: OwnerData, body: Ask) -> None:
    """Refuse a question that is not the next one of a round of sums."""
    before = data.answered or 0
    first = data.state is OwnerState.APPROVED and data.signed and before == 0
    first = first and (data.cleared or not data.agreed.terms.linked)
    later = data.state is OwnerState.PROTECTED and before > 0
    if not sums_rows(data.agreed.terms) or not (first or later) or body.exchange != before + 1:
        raise Reason.UNEXPECTED.error()
    if not 0 < body.attachment.size <= MOST_QUESTION:
        raise Reason.TOO_LARGE.error()


def check_masked(data: RoundData, sender: str, body: Masked) -> None:
    """Refuse an answer that is not to the question that waits, or not as long as it must be."""
    waiting = any(
        key.split("/")[0] == sender and isinstance(each.body, Masked)
        for key, each in data.waiting.items()
    )
    asked = len(data.asked or ())
    fits = data.state is RoundState.COLLECTING and body.exchange == asked > 0
    if not fits or waiting or sender in (data.masked or {}):
        raise Reason.UNEXPECTED.error()
    if body.attachment.size != WORD * (data.numbers or 0):
        raise Reason.MALFORMED.error()


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
            raise Reason.PLAN_UNSOUND.error(what) from None
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
