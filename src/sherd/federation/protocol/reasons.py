"""Why somebody refuses or a round ends: the codes that cross an owner's boundary.

A code and its sentence are all a peer is told; the detail stays in the log of the one who
refuses.
"""

from __future__ import annotations

from enum import StrEnum

from sherd.errors import PeerError


class Reason(StrEnum):
    """A code that may be told to a peer, with the sentence printed for it."""

    words: str

    def __new__(cls, value: str, words: str) -> Reason:
        """A code and its sentence."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.words = words
        return member

    def error(self, what: str | None = None) -> PeerError:
        """The error to raise for it; ``what`` says more than its sentence."""
        return PeerError(what or self.words, reason=self)

    # about a plan or an invitation
    DIFFERENT_ATTRIBUTES = "different-attributes", "the owners' attributes are not the same"
    OVERLAPPING_ATTRIBUTES = "overlapping-attributes", "two owners share an attribute"
    NO_LINKAGE_KEY = "no-linkage-key", "an owner has no key to link its people by"
    K_TOO_SMALL = "k-too-small", "k is below what is allowed"
    EPSILON_TOO_LARGE = "epsilon-too-large", "epsilon is above what the owner's policy allows"
    BUDGET = "budget", "the owner's budget does not allow it"
    UNKNOWN_AGGREGATOR = "unknown-aggregator", "the owner's policy does not know the aggregator"
    METHOD_NOT_ALLOWED = "method-not-allowed", "the owner's policy does not allow the method"
    ATTRIBUTE_NOT_ALLOWED = "attribute-not-allowed", "the owner's policy keeps an attribute back"
    TOO_FEW_ROWS = "too-few-rows", "an owner has too few rows"
    UNKNOWN_PEER = "unknown-peer", "the owner's policy names another key for an owner"
    TOO_MANY_GUESSES = (
        "too-many-guesses",
        "more people would be matched than the owner's policy allows",
    )
    LINKAGE_NOT_ALLOWED = "linkage-not-allowed", "the owner's policy does not allow the linkage"
    PLAN_UNSOUND = "plan-unsound", "the plan does not add up when recomputed"
    PLAN_CHANGED = "plan-changed", "the plan is not the one that was agreed"
    RELEASE_UNSIGNED = "release-unsigned", "the aggregator does not promise to sign the release"
    PLAN_UNSIGNED = "plan-unsigned", "the plan is not signed by every owner"
    METHOD_FAILED = "method-failed", "the method cannot protect the owner's table by this plan"
    NOT_INTERESTED = "not-interested", "a person at the owner refused"
    ROLLED_BACK = "rolled-back", "the owner's ledger is older than one the aggregator has seen"
    # about a round
    REFUSED = "refused", "an owner refused"
    OVERLAPPING_PEOPLE = "overlapping-people", "somebody is known to two owners"
    TOO_FEW_COMMON = "too-few-common", "too few people are known to every owner"
    VERIFICATION = "verification", "a delivery is not what the plan asks for"
    LATE = "late", "the round's deadline has passed"
    ENDED = "ended", "the round has ended"
    STOPPED = "stopped", "the operator ended the round"
    RESTORED = (
        "restored",
        "the aggregator was restored from a backup and lacks what happened in the round since",
    )
    QUARANTINED = "quarantined", "the round failed again and again and was given up"
    # about a message
    MALFORMED = "malformed", "the message cannot be understood"
    SIGNATURE = "signature", "the signature does not match"
    STALE = "stale", "the message has expired"
    WRONG_ROUND = "wrong-round", "the message belongs to another round"
    WRONG_RECIPIENT = "wrong-recipient", "the message is for somebody else"
    UNKNOWN_SENDER = "unknown-sender", "the sender takes no part in the round"
    SEQUENCE_REUSED = (
        "sequence-reused",
        "another message was sent under the same number: two agents use one key, or one was"
        " restored from a backup",
    )
    SEQUENCE_GAP = "sequence-gap", "an earlier message is missing"
    UNEXPECTED = "unexpected", "the message does not fit the state of the round"
    UNKNOWN_CHUNK = "unknown-chunk", "nobody announced this chunk"
    TOO_LARGE = "too-large", "the message is larger than allowed"


FINAL = frozenset(
    {
        Reason.LATE, Reason.ENDED, Reason.SEQUENCE_REUSED, Reason.SEQUENCE_GAP, Reason.SIGNATURE,
        Reason.PLAN_CHANGED, Reason.UNKNOWN_SENDER, Reason.UNKNOWN_CHUNK, Reason.UNEXPECTED,
        Reason.WRONG_ROUND, Reason.MALFORMED, Reason.TOO_LARGE, Reason.STALE,
        Reason.WRONG_RECIPIENT,
    }
)  # fmt: skip
"""Answers to a message that repeating it cannot mend: the round is over for its sender."""

_BY_CODE = {reason.value: reason for reason in Reason}


def reason_of(code: object) -> Reason | None:
    """The reason of a code; None where there is none.

    >>> reason_of("late") is Reason.LATE
    True
    """
    return _BY_CODE.get(str(code))
