"""Signed envelopes: who says what to whom, in which round, by which plan, until when.

The signature covers the header; the header holds the hash of the body. Bytes are accepted
only in the one canonical form, so that equal messages are equal bytes. An owner's announced policy
is canonical JSON with a signature of its own.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sherd.errors import PeerError
from sherd.federation.protocol.announced_policy import AnnouncedPolicy
from sherd.federation.protocol.messages import BODIES, MOST_BYTES, Message, MessageType
from sherd.federation.protocol.reasons import Reason
from sherd.signing_keys import SigningKey, verify
from sherd.values import canonical, canonical_text, from_data, read_json

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1
GRACE = 24 * 3600
"""How long after a round's deadline its envelopes can still be opened, in seconds: the word
that a round has ended must still be readable when it has."""

_TAG = b"sherd-envelope-1\0"


@dataclass(frozen=True, kw_only=True)
class Header:
    """What is signed."""

    version: int
    round: str
    plan: str
    sender: str
    recipient: str
    sequence: int
    type: MessageType
    body_sha256: str
    expires: int


def seal(message: Message, key: SigningKey, *, expires: int) -> bytes:
    """The signed envelope of a message; the same bytes each time."""
    body = canonical_text(message.body)
    header = Header(
        version=VERSION,
        round=message.round,
        plan=message.plan,
        sender=message.sender,
        recipient=message.recipient,
        sequence=message.sequence,
        type=message.type,
        body_sha256=hashlib.sha256(body.encode("ascii")).hexdigest(),
        expires=expires,
    )
    signed = canonical_text(header)
    return _enveloped(signed, body, key.sign(_TAG + signed.encode("ascii")))


def _enveloped(header: str, body: str, signature: str) -> bytes:
    """An envelope in canonical form, of parts that are."""
    return f'{{"body":{body},"header":{header},"signature":"{signature}"}}'.encode("ascii")


def parse(raw: bytes, most: int = MOST_BYTES) -> Any:
    """Canonical JSON as plain data; PeerError for anything else."""
    if len(raw) > most:
        raise PeerError(
            "the message is too large", must=f"at most {most} bytes", reason=Reason.TOO_LARGE
        )
    try:
        raw.decode("ascii")
        data = read_json(raw)
        same = canonical(data) == raw
    except (ValueError, RecursionError, TypeError):
        same = False
    if not same:
        raise PeerError(
            "the message is not in canonical form", must="canonical JSON", reason=Reason.MALFORMED
        )
    return data


def open_envelope(
    raw: bytes,
    *,
    key_of: Callable[[str], str | None],
    recipient: str,
    now: int,
) -> Message:
    """The message in an envelope, after its form, signature, recipient and expiry were checked.

    ``key_of`` gives the public key of a sender, None for a stranger. Rounds, plans and
    sequence numbers are the protocol machines' business.
    """
    data = parse(raw)
    if not isinstance(data, dict) or set(data) != {"header", "body", "signature"}:
        raise Reason.MALFORMED.error("the envelope is incomplete")
    header = from_data(Header, data["header"])
    signature = data["signature"]
    key = key_of(header.sender)
    if key is None:
        raise Reason.UNKNOWN_SENDER.error()
    if not isinstance(signature, str):
        raise Reason.SIGNATURE.error()
    # The bytes are canonical, so that the body's are those between the two other parts.
    signed = canonical(data["header"])
    tail = len(signed) + len(canonical(signature)) + len(b',"header":,"signature":}')
    body = raw[len(b'{"body":') : len(raw) - tail]
    if not verify(key, _TAG + signed, signature):
        raise Reason.SIGNATURE.error()
    if header.version != VERSION:
        raise Reason.MALFORMED.error("the envelope is of another version")
    if hashlib.sha256(body).hexdigest() != header.body_sha256:
        raise Reason.SIGNATURE.error("the body is not the one that was signed")
    if header.recipient != recipient:
        raise Reason.WRONG_RECIPIENT.error()
    if now > header.expires + GRACE:
        raise Reason.STALE.error()
    return Message(
        round=header.round,
        plan=header.plan,
        sender=header.sender,
        recipient=header.recipient,
        sequence=header.sequence,
        body=from_data(BODIES[header.type], data["body"]),
        raw=raw.decode("ascii"),
    )


MOST_ANNOUNCEMENT = 512 << 10
"""The most bytes of an announcement."""

_POLICY_TAG = b"sherd-policy-1\0"


def sign_announcement(policy: AnnouncedPolicy, key: SigningKey) -> bytes:
    """An announcement as it travels; the same bytes each time."""
    text = canonical_text(policy)
    signature = key.sign(_POLICY_TAG + text.encode("ascii"))
    return f'{{"policy":{text},"signature":"{signature}"}}'.encode("ascii")


def read_announcement(raw: bytes, *, owner: str, key: str, aggregator: str) -> AnnouncedPolicy:
    """The policy in an announcement, its form, signature and names checked."""
    data = parse(raw, MOST_ANNOUNCEMENT)
    if not isinstance(data, dict) or set(data) != {"policy", "signature"}:
        raise Reason.MALFORMED.error("the announcement is incomplete")
    policy, signature = from_data(AnnouncedPolicy, data["policy"]), data["signature"]
    if not isinstance(signature, str) or not verify(
        key, _POLICY_TAG + canonical(data["policy"]), signature
    ):
        raise Reason.SIGNATURE.error()
    if policy.owner != owner:
        raise Reason.UNKNOWN_SENDER.error()
    if policy.aggregator != aggregator:
        raise Reason.WRONG_RECIPIENT.error()
    return policy
