"""What each side knows of a round: plain values that are written down between two calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from sherd.federation.protocol.joint_plan import JointPlan, Offer, Terms
from sherd.federation.protocol.messages import (
    Ask,
    Attachment,
    Batch,
    Delivery,
    Hop,
    Masked,
    Pseudonyms,
)
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.values import LATER


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A message whose attachment has not arrived yet: exactly one of the bodies is there."""

    raw: str
    batch: Batch | None = None
    pseudonyms: Pseudonyms | None = None
    delivery: Delivery | None = None
    masked: Masked | None = field(default=None, metadata=LATER)

    @property
    def body(self) -> Any:
        """The message's body."""
        return self.batch or self.pseudonyms or self.delivery or self.masked


@dataclass(kw_only=True)
class RoundData:
    """Everything the aggregator knows of a round.

    ``checked`` are the owners whose deliveries were read and found to fit the plan; ``tries``
    counts how often linking or assembling was begun and did not come to an end.

    ``commons`` are the lists of the released people that the owners were told: of a round of
    blocks each owner's own, else everybody's (``common``, in rounds of earlier versions).

    In a round of sums, ``asked`` are the questions so far and ``sums`` what was answered to them in
    all; ``numbers`` is how many numbers answer the last one, and ``masked`` who answered it.
    """

    terms: Terms
    aggregator_key: str
    keys: dict[str, str]
    heads: dict[str, str] = field(default_factory=dict)
    state: RoundState = RoundState.DRAFT
    offers: dict[str, Offer] = field(default_factory=dict)
    plan: JointPlan | None = None
    signatures: dict[str, str] = field(default_factory=dict)
    received: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    hops: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    pseudonyms: dict[str, Attachment] = field(default_factory=dict)
    common: Attachment | None = None
    common_count: int | None = None
    deliveries: dict[str, Delivery] = field(default_factory=dict)
    dropped: dict[str, Reason] = field(default_factory=dict)
    reason: Reason | None = None
    details: tuple[str, ...] = ()
    manifest: str | None = None
    checked: tuple[str, ...] | None = field(default=None, metadata=LATER)
    tries: int | None = field(default=None, metadata=LATER)
    asked: tuple[Attachment, ...] | None = field(default=None, metadata=LATER)
    sums: tuple[Attachment, ...] | None = field(default=None, metadata=LATER)
    numbers: int | None = field(default=None, metadata=LATER)
    masked: dict[str, Masked] | None = field(default=None, metadata=LATER)
    commons: dict[str, Attachment] | None = field(default=None, metadata=LATER)

    @property
    def agreed(self) -> JointPlan:
        """The plan; only for a round that has one."""
        assert self.plan is not None
        return self.plan


@dataclass(kw_only=True)
class OwnerData:
    """Everything an owner knows of a round, but for its table and its secrets.

    ``table`` is the hash of the table that was offered; ``tries`` counts how often a task of
    this round failed. In a round of sums, ``questions`` are those so far, as they came, and
    ``answered`` says how many of them were answered.
    """

    round: str
    owner: str
    key: str
    aggregator: str
    aggregator_key: str
    state: OwnerState = OwnerState.INVITED
    terms: Terms | None = None
    offer: Offer | None = None
    plan: JointPlan | None = None
    head: str | None = None
    received: int = 0
    sent: int = 0
    signed: bool = False
    blinded: bool = False
    to_raise: tuple[Hop, ...] = ()
    returned: Hop | None = None
    named: bool = False
    cleared: bool = False
    common: Attachment | None = None
    artefact: str | None = None
    manifest: str | None = None
    reason: Reason | None = None
    details: tuple[str, ...] = ()
    raised: tuple[str, ...] = ()
    table: str | None = field(default=None, metadata=LATER)
    tries: int | None = field(default=None, metadata=LATER)
    questions: tuple[Ask, ...] | None = field(default=None, metadata=LATER)
    answered: int | None = field(default=None, metadata=LATER)

    @property
    def agreed(self) -> JointPlan:
        """The plan; only for a round that has one."""
        assert self.plan is not None
        return self.plan
