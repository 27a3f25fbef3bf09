"""One owner's side of a round, without I/O.

``Owner`` takes the aggregator's messages and says in ``task`` what the owner must do next:
check, ask a person, compute, protect. The result of a task comes back through a method of
its own, which gives the message to send. Everything it knows is in ``OwnerData``, a plain
value that can be written down between any two calls.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from sherd.federation.protocol.composition import unsound
from sherd.federation.protocol.joint_plan import Linkage, Offer
from sherd.federation.protocol.linkage import POINT, chain
from sherd.federation.protocol.messages import (
    FROM_OWNERS,
    Abort,
    Ask,
    Attachment,
    Batch,
    Common,
    Delivery,
    Hop,
    Invite,
    Masked,
    Message,
    Proposal,
    Pseudonyms,
    Receipt,
    Refusal,
    Released,
    Signature,
    Signed,
)
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OWNER, OWNER_ENDS, OwnerEvent, OwnerState, step
from sherd.federation.protocol.summing import check_ask, sums_rows
from sherd.values import to_data

if TYPE_CHECKING:
    from sherd.federation.protocol.knowledge import OwnerData

Verify = Callable[[str, str, str], bool]


class OwnerTask(StrEnum):
    """What the owner must do for the round to go on."""

    OFFER = "offer"
    CHECK_PLAN = "check the plan"
    APPROVE = "approve"
    BLIND = "blind"
    RAISE = "raise"
    FINISH = "finish"
    PROTECT = "protect"
    COUNT = "count"


class Owner:
    """A round as one owner takes part in it."""

    def __init__(self, data: OwnerData, *, verify: Verify) -> None:
        self.data = data
        self._verify = verify

    @property
    def state(self) -> OwnerState:
        """Where the round stands."""
        return self.data.state

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more."""
        return self.data.state in OWNER_ENDS

    @property
    def task(self) -> OwnerTask | None:
        """What the owner must do next; None while it waits for the aggregator."""
        data = self.data
        if self.state is OwnerState.INVITED:
            if data.terms is not None and data.offer is None:
                return OwnerTask.OFFER
            return None if data.plan is None else OwnerTask.CHECK_PLAN
        if self.state is OwnerState.AWAITING_APPROVAL:
            return OwnerTask.APPROVE
        may_answer = self.state in (OwnerState.APPROVED, OwnerState.PROTECTED)
        if may_answer and len(data.questions or ()) > (data.answered or 0):
            return OwnerTask.COUNT
        if self.state is OwnerState.APPROVED and data.signed:
            return self._after_signing()
        return None

    def _after_signing(self) -> OwnerTask | None:
        data = self.data
        assert data.terms is not None
        if data.cleared or data.terms.linkage is Linkage.NONE:
            return None if sums_rows(data.terms) else OwnerTask.PROTECT
        if data.terms.linkage is Linkage.HMAC:
            return None if data.named else OwnerTask.FINISH
        if not data.blinded:
            return OwnerTask.BLIND
        if data.to_raise:
            return OwnerTask.RAISE
        return OwnerTask.FINISH if data.returned is not None and not data.named else None

    # the aggregator's messages

    def receive(self, message: Message) -> bool:
        """Take a message of the aggregator; False where it was seen before."""
        data = self.data
        if message.round != data.round:
            raise Reason.WRONG_ROUND.error()
        if message.recipient != data.owner:
            raise Reason.WRONG_RECIPIENT.error()
        if message.sender != data.aggregator or message.type in FROM_OWNERS:
            raise Reason.UNKNOWN_SENDER.error()
        if message.sequence <= data.received:
            return False
        if message.sequence != data.received + 1:
            raise Reason.SEQUENCE_GAP.error()
        if not self.ended:
            if isinstance(message.body, Abort):
                self._abort(message.body)
            else:
                self._handle(message)
        data.received = message.sequence
        return True

    def _handle(self, message: Message) -> None:
        data, body = self.data, message.body
        known = "" if data.plan is None else data.plan.hash
        if isinstance(body, Invite):
            if data.terms is not None:
                raise Reason.UNEXPECTED.error()
            self._invited(body)
            return
        if isinstance(body, Proposal):
            if data.plan is not None or data.offer is None:
                raise (Reason.PLAN_CHANGED if data.plan else Reason.UNEXPECTED).error()
            if message.plan != body.plan.hash:
                raise Reason.PLAN_CHANGED.error()
            data.plan, data.head = body.plan, body.head
            return
        if not known or message.plan != known:
            raise Reason.PLAN_CHANGED.error()
        handlers: dict[type, Callable[[Any], None]] = {
            Signed: self._all_signed,
            Hop: self._hop,
            Common: self._cleared,
            Ask: self._asked,
            Receipt: self._receipt,
            Released: self._released,
        }
        handlers[type(body)](body)

    def _invited(self, body: Invite) -> None:
        data, terms = self.data, body.terms
        if terms.round != data.round or terms.aggregator != data.aggregator:
            raise Reason.WRONG_ROUND.error()
        if data.owner not in terms.owners or body.aggregator_key != data.aggregator_key:
            raise Reason.UNKNOWN_AGGREGATOR.error()
        data.terms = terms

    def _all_signed(self, body: Signed) -> None:
        data = self.data
        if self.state is not OwnerState.APPROVED or data.signed:
            raise Reason.UNEXPECTED.error()
        for share in data.agreed.shares:
            given = body.signatures.get(share.owner, "")
            if not self._verify(share.key, data.agreed.hash, given):
                raise Reason.PLAN_UNSIGNED.error()
        data.signed, data.head = True, body.head

    def _hop(self, body: Hop) -> None:
        data = self.data
        if self.state is not OwnerState.APPROVED or not data.signed or data.cleared:
            raise Reason.UNEXPECTED.error()
        if body.origin not in data.agreed.owners or body.hop < 1:
            raise Reason.UNEXPECTED.error()
        order = chain(data.agreed.owners, body.origin)
        if not 0 < body.count <= data.agreed.share(body.origin).rows:
            raise Reason.TOO_LARGE.error()
        if body.attachment.size != POINT * body.count:
            raise Reason.MALFORMED.error("a batch is not of the size announced")
        if body.origin == data.owner:
            if body.hop != len(order) or data.returned is not None:
                raise Reason.UNEXPECTED.error()
            data.returned = body
            return
        # One batch of each other owner and no more: raising is the oracle that could be misused.
        before = any(hop.origin == body.origin for hop in data.to_raise)
        done = body.origin in data.raised
        if body.hop >= len(order) or order[body.hop] != data.owner or before or done:
            raise Reason.UNEXPECTED.error()
        data.to_raise = (*data.to_raise, body)

    def _cleared(self, body: Common) -> None:
        """Linking is done; in a vertical round, a list of people whom we have and can protect."""
        data = self.data
        if self.state is not OwnerState.APPROVED or not data.named or data.cleared:
            raise Reason.UNEXPECTED.error()
        if data.agreed.terms.kind.joins:
            if body.attachment is None or body.count is None:
                raise Reason.MALFORMED.error("the list of common people is missing")
            if body.attachment.size != POINT * body.count:
                raise Reason.MALFORMED.error("the list of common people is not of its size")
            if body.count > data.agreed.share(data.owner).rows:
                raise Reason.TOO_LARGE.error("more people are said to be common than we have")
            if body.count < data.agreed.terms.least_people:
                raise Reason.TOO_FEW_COMMON.error()
        elif body.attachment is not None or body.count is not None:
            raise Reason.UNEXPECTED.error()
        data.cleared, data.common, data.head = True, body.attachment, body.head

    def _asked(self, body: Ask) -> None:
        check_ask(self.data, body)
        self.data.questions = (*(self.data.questions or ()), body)
        self.data.head = body.head

    def _receipt(self, body: Receipt) -> None:
        if self.task is OwnerTask.COUNT:
            raise Reason.UNEXPECTED.error()
        if self.state is not OwnerState.PROTECTED or body.artefact != self.data.artefact:
            raise Reason.UNEXPECTED.error()
        self._move(OwnerEvent.RECEIPT)

    def _released(self, body: Released) -> None:
        if self.state is not OwnerState.DELIVERED:
            raise Reason.UNEXPECTED.error()
        self.data.manifest = body.manifest
        self._move(OwnerEvent.ENDED)

    def _abort(self, body: Abort) -> None:
        self.data.reason, self.data.details = body.reason, body.details
        if self.state is OwnerState.DELIVERED:
            self._move(OwnerEvent.ENDED)
        else:
            late = body.reason is Reason.LATE
            self._move(OwnerEvent.DEADLINE if late else OwnerEvent.ABORTED)

    # the owner's own doing

    def offer(self, offer: Offer) -> Message:
        """Offer attributes (step 2)."""
        assert self.task is OwnerTask.OFFER
        self.data.offer = offer
        return self._send(offer)

    def recompute(self) -> tuple[Reason, str] | None:
        """What is wrong with the proposed plan, by its own numbers and by what we offered."""
        data = self.data
        plan = data.agreed
        assert data.offer is not None
        if to_data(plan.terms) != to_data(data.terms) or plan.aggregator_key != data.aggregator_key:
            return Reason.PLAN_CHANGED, "the plan's terms are not those of the invitation"
        if data.owner not in plan.owners:
            return Reason.PLAN_CHANGED, "the plan leaves us out"
        own = plan.share(data.owner)
        if own.key != data.key:
            return Reason.PLAN_CHANGED, "the plan names another key for us"
        offered = (data.offer.rows, data.offer.parsed().hash, data.offer.mask_key)
        if (own.rows, own.schema_hash, own.mask_key) != offered:
            return Reason.PLAN_CHANGED, "the plan does not say of us what we offered"
        if plan.coded and not data.offer.coded:
            return Reason.PLAN_CHANGED, "the plan asks for coded columns, which we did not offer"
        return unsound(plan)

    def plan_passed(self) -> None:
        """The plan passed policy, ledger and recomputation: ask for approval."""
        assert self.task is OwnerTask.CHECK_PLAN
        self._move(OwnerEvent.PLAN_PASSED)
        self._move(OwnerEvent.ASKED)

    def approve(self, signature: str) -> Message:
        """Approve and sign the plan."""
        assert self.task is OwnerTask.APPROVE
        self._move(OwnerEvent.APPROVED)
        return self._send(Signature(signature=signature))

    def refuse(self, reason: Reason) -> Message:
        """Refuse: the code goes to the aggregator."""
        self._move(OwnerEvent.REFUSED)
        self.data.reason = reason
        return self.leave(reason)

    def leave(self, reason: Reason) -> Message:
        """Say that we take no further part; our own state stays as it is."""
        return self._send(Refusal(reason=reason))

    def blinded(self, *, count: int, attachment: Attachment) -> Message:
        """Send our own batch on its way."""
        assert self.task is OwnerTask.BLIND
        self.data.blinded = True
        return self._send(Batch(origin=self.data.owner, hop=0, count=count, attachment=attachment))

    def raised(self, attachment: Attachment) -> Message:
        """Send on the first batch that waited, raised by our key."""
        assert self.task is OwnerTask.RAISE
        hop, *rest = self.data.to_raise
        self.data.to_raise = tuple(rest)
        self.data.raised = (*self.data.raised, hop.origin)
        return self._send(
            Batch(origin=hop.origin, hop=hop.hop, count=hop.count, attachment=attachment)
        )

    def named(self, *, count: int, attachment: Attachment) -> Message:
        """Send the pseudonyms of our people."""
        assert self.task is OwnerTask.FINISH
        self.data.named = True
        return self._send(Pseudonyms(count=count, attachment=attachment))

    def protected(self, delivery: Delivery) -> Message:
        """Deliver what was protected and charged (steps 5 to 7)."""
        assert self.task is OwnerTask.PROTECT
        self._move(OwnerEvent.CHARGED)
        self.data.artefact = delivery.artefact
        return self._send(delivery)

    def counted(self, body: Masked) -> Message:
        """Answer a question; the ledger was charged before the first."""
        assert self.task is OwnerTask.COUNT
        if self.state is OwnerState.APPROVED:
            self._move(OwnerEvent.CHARGED)
        self.data.artefact, self.data.answered = body.artefact, body.exchange
        return self._send(body)

    def tick(self, now: int) -> None:
        """Let time pass: what is not charged yet is given up at the deadline."""
        terms = self.data.terms
        spent = self.state in (OwnerState.PROTECTED, OwnerState.DELIVERED)
        if terms is None or self.ended or spent or now <= terms.deadline:
            return
        self._move(OwnerEvent.DEADLINE)
        self.data.reason = Reason.LATE

    @property
    def spent(self) -> bool:
        """Whether the ledger was charged for the round."""
        return self.data.artefact is not None

    def expire(self, reason: Reason, *details: str) -> None:
        """The round is over for us, by the aggregator's word or because it cannot go on."""
        if not self.ended:
            self._abort(Abort(reason=reason, details=details))

    def _move(self, event: OwnerEvent) -> None:
        self.data.state = step(OWNER, self.data.state, event)

    def _send(self, body: Any) -> Message:
        data = self.data
        data.sent += 1
        return Message(
            round=data.round,
            plan="" if data.plan is None else data.plan.hash,
            sender=data.owner,
            recipient=data.aggregator,
            sequence=data.sent,
            body=body,
        )
