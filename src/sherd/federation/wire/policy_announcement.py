"""An owner's announced policy on the wire: canonical JSON, signed by the owner's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import PeerError
from sherd.federation.protocol.announced_policy import AnnouncedPolicy
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.envelope import parse
from sherd.signing_keys import verify
from sherd.values import canonical, canonical_text, from_data

if TYPE_CHECKING:
    from sherd.signing_keys import SigningKey

MOST_ANNOUNCEMENT = 512 << 10
"""The most bytes of an announcement."""

_TAG = b"sherd-policy-1\0"


def sign_announcement(policy: AnnouncedPolicy, key: SigningKey) -> bytes:
    """An announcement as it travels; the same bytes each time."""
    text = canonical_text(policy)
    signature = key.sign(_TAG + text.encode("ascii"))
    return f'{{"policy":{text},"signature":"{signature}"}}'.encode("ascii")


def read_announcement(raw: bytes, *, owner: str, key: str, aggregator: str) -> AnnouncedPolicy:
    """The policy in an announcement, its form, signature and names checked."""
    data = parse(raw, MOST_ANNOUNCEMENT)
    if not isinstance(data, dict) or set(data) != {"policy", "signature"}:
        raise PeerError("the announcement is incomplete", reason=Reason.MALFORMED)
    policy, signature = from_data(AnnouncedPolicy, data["policy"]), data["signature"]
    if not isinstance(signature, str) or not verify(
        key, _TAG + canonical(data["policy"]), signature
    ):
        raise Reason.SIGNATURE.error()
    if policy.owner != owner:
        raise Reason.UNKNOWN_SENDER.error()
    if policy.aggregator != aggregator:
        raise Reason.WRONG_RECIPIENT.error()
    return policy
