"""The aggregator's side of a round, without I/O.

``Round`` takes messages and gives back messages. Everything it knows is in ``RoundData``,
a plain value that can be written down between any two calls; what it must have computed
elsewhere (linking pseudonyms, assembling the release) it names in ``task``.

A message that breaks the protocol raises PeerError and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from sherd.federation.protocol.announcements import check_announcement
from sherd.federation.protocol.composition import plan_or_reason
from sherd.federation.protocol.joint_plan import Dropout, JointPlan, Linkage, Offer
from sherd.federation.protocol.knowledge import RoundData, Waiting
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
    Message,
    Proposal,
    Receipt,
    Refusal,
    Released,
    Signature,
    Signed,
    attachments,
)
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import ROUND, ROUND_ENDS, RoundEvent, RoundState, step
from sherd.federation.protocol.summing import sums_rows

Verify = Callable[[str, str, str], bool]
"""Whether (key, plan hash, signature) is that key's signature of the plan."""


class RoundTask(StrEnum):
    """What somebody else must compute for the round to go on."""

    LINK = "link"
    CHECK = "check a delivery"
    SUM = "sum answers"
    ASSEMBLE = "assemble"


class Round:
    """A round as the aggregator runs it."""

    def __init__(self, data: RoundData, *, verify: Verify) -> None:
        self.data = data
        self._verify = verify
        self._out: list[Message] = []

    @property
    def state(self) -> RoundState:
        """Where the round stands."""
        return self.data.state

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more."""
        return self.data.state in ROUND_ENDS

    @property
    def active(self) -> tuple[str, ...]:
        """The owners that are still part of the round."""
        plan = self.data.plan
        owners = self.data.terms.owners if plan is None else plan.owners
        return tuple(owner for owner in owners if owner not in self.data.dropped)

    @property
    def task(self) -> RoundTask | None:
        """What must be computed elsewhere now."""
        if self.unchecked:
            return RoundTask.CHECK
        if self.state is RoundState.ASSEMBLING:
            return RoundTask.ASSEMBLE
        if self.state is RoundState.LINKING and len(self.data.pseudonyms) == len(self.active):
            return RoundTask.LINK
        complete = self.data.masked is None or set(self.data.masked) == set(self.active)
        if self.state is RoundState.COLLECTING and sums_rows(self.data.terms) and complete:
            return RoundTask.SUM
        return None

    @property
    def unchecked(self) -> tuple[str, ...]:
        """The owners whose deliveries have arrived and were not looked at yet.

        A delivery that does not fit the plan ends the round before more owners are charged.
        """
        if self.state not in (RoundState.COLLECTING, RoundState.ASSEMBLING):
            return ()
        done = self.data.checked or ()
        return tuple(name for name in self.data.deliveries if name not in done)

    def passed(self, owner: str) -> None:
        """An owner's delivery was read and fits the plan."""
        self.data.checked = (*(self.data.checked or ()), owner)

    def may_complete(self, message: Message) -> bool:
        """Whether a message may be the last its state waits for, so that all are written to."""
        data = self.data
        if isinstance(message.body, Offer):
            return len(data.offers) + 1 >= len(self.active)
        if isinstance(message.body, Signature):
            return len(data.signatures) + 1 >= len(self.active)
        return isinstance(message.body, Refusal)

    def open(self) -> list[Message]:
        """Begin: invite every owner (step 1)."""
        self._move(RoundEvent.OPENED)
        invite = Invite(terms=self.data.terms, aggregator_key=self.data.aggregator_key)
        for owner in self.data.terms.owners:
            self._send(owner, invite)
        return self._flush()

    def receive(self, message: Message, *, now: int) -> list[Message]:
        """Take a message of an owner; what to send because of it."""
        data = self.data
        self._check(message, now)
        body = message.body
        if attachments(body):
            check_announcement(self.data, message.sender, body)
            self._accept(message)
            key = f"{message.sender}/{message.sequence}"
            data.waiting[key] = Waiting(
                raw=message.raw,
                **{message.type.value: body},
            )
        else:
            if isinstance(body, Offer):
                self._offer(message.sender, body)
            elif isinstance(body, Signature):
                self._signature(message.sender, body)
            else:
                assert isinstance(body, Refusal)
                self._refusal(message.sender, body)
            self._accept(message)
        return self._flush()

    def attached(self, sender: str, sequence: int) -> list[Message]:
        """An announced attachment has arrived whole; what to send because of it."""
        waiting = self.data.waiting.pop(f"{sender}/{sequence}", None)
        if waiting is None or self.ended:
            return []
        if waiting.batch is not None:
            self._batch(waiting.batch, waiting.raw)
        elif waiting.pseudonyms is not None:
            self.data.pseudonyms[sender] = waiting.pseudonyms.attachment
        elif waiting.delivery is not None:
            self._delivery(sender, waiting.delivery)
        elif waiting.masked is not None:
            self.data.masked = {**(self.data.masked or {}), sender: waiting.masked}
        return self._flush()

    def linked(self, *, overlap: int, count: int, common: dict[str, Attachment]) -> list[Message]:
        """The pseudonyms were compared.

        How many are at two owners who may have none in common, how many people are released, and
        the lists that owners are told; in a horizontal round none.
        """
        data = self.data
        assert self.task is RoundTask.LINK
        if overlap >= (data.terms.overlap_told or 1):
            self._fail(Reason.OVERLAPPING_PEOPLE)
            return self._flush()
        if data.terms.kind.joins:
            data.common_count, data.commons = count, common
            if min(one.size // POINT for one in common.values()) < data.terms.least_people:
                self._fail(Reason.TOO_FEW_COMMON)
                return self._flush()
        self._collect(common)
        return self._flush()

    def ask(self, question: Attachment, numbers: int) -> list[Message]:
        """Put the next question of a round of sums to every owner."""
        data = self.data
        data.asked, data.masked = (*(data.asked or ()), question), {}
        data.numbers = numbers
        for owner in self.active:
            head = data.heads.get(owner)
            self._send(owner, Ask(exchange=len(data.asked), attachment=question, head=head))
        return self._flush()

    def summed(self, sums: Attachment) -> None:
        """The answers to the last question were added up."""
        self.data.sums = (*(self.data.sums or ()), sums)

    def complete(self) -> list[Message]:
        """No question is left: every owner's part is done."""
        for owner, body in (self.data.masked or {}).items():
            self._send(owner, Receipt(artefact=body.artefact))
        self._move(RoundEvent.DELIVERIES_COMPLETE)
        return self._flush()

    def assembled(self, manifest: str) -> list[Message]:
        """The release is written; the hash of its manifest (step 8)."""
        self._move(RoundEvent.ASSEMBLED)
        self.data.manifest = manifest
        for owner in self.active:
            self._send(owner, Released(manifest=manifest))
        return self._flush()

    def fail(self, reason: Reason, details: tuple[str, ...] = ()) -> list[Message]:
        """End the round without a release."""
        if not self.ended:
            self._fail(reason, details)
        return self._flush()

    def tick(self, now: int) -> list[Message]:
        """Let time pass: a round ends at its deadline, or goes on with those who delivered."""
        data = self.data
        if self.ended or now <= data.terms.deadline or self.state is RoundState.ASSEMBLING:
            return []
        if (
            self.state is RoundState.COLLECTING
            and data.terms.dropout is Dropout.CONTINUE
            and len(data.deliveries) >= data.terms.least_owners
        ):
            for owner in self.active:
                if owner not in data.deliveries:
                    self._drop(owner, Reason.LATE)
            self._move(RoundEvent.DELIVERIES_COMPLETE)
        else:
            self._end(RoundEvent.DEADLINE, Reason.LATE)
        return self._flush()

    # what a message does

    def _check(self, message: Message, now: int) -> None:
        data = self.data
        if message.round != data.terms.round:
            raise Reason.WRONG_ROUND.error()
        if message.recipient != data.terms.aggregator:
            raise Reason.WRONG_RECIPIENT.error()
        if message.sender not in self.active or message.type not in FROM_OWNERS:
            raise Reason.UNKNOWN_SENDER.error()
        if self.ended or now > data.terms.deadline:
            late = self.state is RoundState.EXPIRED or not self.ended
            raise (Reason.LATE if late else Reason.ENDED).error()
        expected = data.received.get(message.sender, 0) + 1
        if message.sequence != expected:
            reused = message.sequence < expected
            raise (Reason.SEQUENCE_REUSED if reused else Reason.SEQUENCE_GAP).error()
        # A refusal may cross the proposal on its way.
        known = "" if data.plan is None else data.plan.hash
        if message.plan != known and not (message.plan == "" and isinstance(message.body, Refusal)):
            raise Reason.PLAN_CHANGED.error()

    def _accept(self, message: Message) -> None:
        self.data.received[message.sender] = message.sequence

    def _expect(self, *states: RoundState) -> None:
        if self.state not in states:
            raise Reason.UNEXPECTED.error()

    def _offer(self, sender: str, offer: Offer) -> None:
        self._expect(RoundState.ATTRIBUTES)
        if sender in self.data.offers:
            raise Reason.UNEXPECTED.error()
        self.data.offers[sender] = offer
        self._propose_if_complete()

    def _propose_if_complete(self) -> None:
        data = self.data
        if set(data.offers) != set(self.active):
            return
        offers = {owner: data.offers[owner] for owner in self.active}
        plan = plan_or_reason(data.terms, offers, data.keys, data.aggregator_key)
        if not isinstance(plan, JointPlan):
            self._fail(*plan)
            return
        self._move(RoundEvent.OFFERS_COMPLETE)
        data.plan = plan
        self._move(RoundEvent.PLAN_MADE)
        for owner in plan.owners:
            self._send(owner, Proposal(plan=plan, head=data.heads.get(owner)))

    def _signature(self, sender: str, body: Signature) -> None:
        data = self.data
        self._expect(RoundState.PLAN_PROPOSED)
        if sender in data.signatures:
            raise Reason.UNEXPECTED.error()
        if not self._verify(data.agreed.share(sender).key, data.agreed.hash, body.signature):
            raise Reason.SIGNATURE.error()
        data.signatures[sender] = body.signature
        if set(data.signatures) != set(data.agreed.owners):
            return
        self._move(RoundEvent.SIGNATURES_COMPLETE)
        linked = data.terms.linkage is not Linkage.NONE
        self._move(RoundEvent.LINKAGE_BEGINS if linked else RoundEvent.NO_LINKAGE)
        for owner in data.agreed.owners:
            self._send(owner, Signed(signatures=dict(data.signatures), head=data.heads.get(owner)))

    def _refusal(self, sender: str, body: Refusal) -> None:
        data = self.data
        if sender in data.deliveries:
            raise Reason.UNEXPECTED.error()
        goes_on = (
            data.terms.dropout is Dropout.CONTINUE
            and self.state in (RoundState.ATTRIBUTES, RoundState.COLLECTING)
            and not (self.state is RoundState.COLLECTING and sums_rows(data.terms))
            and len(self.active) - 1 >= data.terms.least_owners
        )
        if not goes_on:
            self._fail(Reason.REFUSED, (f"{sender}: {body.reason.words}",))
            return
        data.dropped[sender] = body.reason
        data.offers.pop(sender, None)
        if self.state is RoundState.ATTRIBUTES:
            self._propose_if_complete()
        else:
            self._assemble_if_complete()

    def _batch(self, body: Batch, raw: str) -> None:
        data = self.data
        order = chain(data.agreed.owners, body.origin)
        data.counts[body.origin] = body.count
        data.hops[body.origin] = body.hop + 1
        to = order[(body.hop + 1) % len(order)]
        hop = Hop(
            origin=body.origin,
            hop=body.hop + 1,
            count=body.count,
            attachment=body.attachment,
            proof=raw,
        )
        self._send(to, hop)

    def _delivery(self, sender: str, body: Delivery) -> None:
        self.data.deliveries[sender] = body
        self._send(sender, Receipt(artefact=body.artefact))
        self._assemble_if_complete()

    def _assemble_if_complete(self) -> None:
        if set(self.data.deliveries) == set(self.active):
            self._move(RoundEvent.DELIVERIES_COMPLETE)

    def _collect(self, common: dict[str, Attachment]) -> None:
        self._move(RoundEvent.LINKED)
        for owner in self.active:
            head, mine = self.data.heads.get(owner), common.get(owner)
            count = None if mine is None else mine.size // POINT
            self._send(owner, Common(count=count, attachment=mine, head=head))

    # moving and sending

    def _move(self, event: RoundEvent) -> None:
        self.data.state = step(ROUND, self.data.state, event)

    def _drop(self, owner: str, reason: Reason) -> None:
        self._send(owner, Abort(reason=reason))
        self.data.dropped[owner] = reason

    def _fail(self, reason: Reason, details: tuple[str, ...] = ()) -> None:
        self._end(RoundEvent.FAILED, reason, details)

    def _end(self, event: RoundEvent, reason: Reason, details: tuple[str, ...] = ()) -> None:
        self._move(event)
        self.data.reason, self.data.details = reason, details
        self.data.waiting.clear()
        for owner in self.active:
            self._send(owner, Abort(reason=reason, details=details))

    def _send(self, owner: str, body: Any) -> None:
        number = self.data.sent.get(owner, 0) + 1
        self.data.sent[owner] = number
        plan = self.data.plan
        self._out.append(
            Message(
                round=self.data.terms.round,
                plan="" if plan is None or isinstance(body, Invite) else plan.hash,
                sender=self.data.terms.aggregator,
                recipient=owner,
                sequence=number,
                body=body,
            )
        )

    def _flush(self) -> list[Message]:
        out, self._out = self._out, []
        return out
