"""What an owner does in one round: offer, check, approve, link, protect; and what it writes down.

``RoundBook`` holds a round's machine with what is not written down yet. ``do_task`` does the
one thing that the machine asks for; it raises where that failed, and the agent decides whether
to try again, to refuse or to give the round up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sherd.errors import PeerError
from sherd.federation.owner import outbox, owner_counting
from sherd.federation.owner import owner_linking as linking
from sherd.federation.owner.guess_meter import check_raised, guessing_objection
from sherd.federation.owner.owner_journal import Outgoing, RoundChange
from sherd.federation.protocol.joint_plan import Kind, Linkage, Offer, write_schema
from sherd.federation.protocol.messages import MOST_TEXT
from sherd.federation.protocol.owner_machine import OwnerTask
from sherd.federation.protocol.reasons import Reason, reason_of
from sherd.federation.protocol.states import OwnerState
from sherd.federation.protocol.summing import public_key, sums_rows
from sherd.federation.wire.envelope import seal
from sherd.federation.wire.failpoints import reach

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.owner.agent import Agent
    from sherd.federation.protocol.joint_plan import Terms
    from sherd.federation.protocol.messages import Message
    from sherd.federation.protocol.owner_machine import Owner
    from sherd.signing_keys import SigningKey

FEW_MATCH = 0.9
"""The share of the smallest table below which owners are warned that few people matched."""


@dataclass(kw_only=True)
class RoundBook:
    """A round's machine, what it will send, and lines for the audit log."""

    machine: Owner
    key: SigningKey
    outgoing: list[Outgoing] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """Whether there is anything to write down."""
        return bool(self.notes)

    @property
    def change(self) -> RoundChange:
        """What is to be written down."""
        return RoundChange(
            data=self.machine.data, outgoing=tuple(self.outgoing), notes=tuple(self.notes)
        )

    def note(
        self, what: str, message: Message | None = None, files: dict[str, Path] | None = None
    ) -> None:
        """The round has changed: a line for the log, and a message to send if there is one."""
        self.notes.append((what, self.machine.state.value))
        if message is None:
            return
        terms = self.machine.data.terms
        assert terms is not None
        self.outgoing.append(
            Outgoing(
                round=message.round,
                sequence=message.sequence,
                raw=seal(message, self.key, expires=terms.deadline),
                files={name: str(path) for name, path in (files or {}).items()},
            )
        )

    def refuse(self, reason: Reason, detail: str) -> None:
        """Take no further part: the code is sent, the detail stays with the owner."""
        message = self.machine.refuse(reason)
        self.machine.data.details = (detail,)
        self.note(f"refused: {reason.value}", message)

    def give_up(self, reason: Reason, detail: str) -> None:
        """End a round that cannot go on: refuse while nothing is spent, else just end it."""
        machine = self.machine
        if machine.ended:
            return
        if machine.spent or machine.data.terms is None:
            machine.expire(reason, detail)
            self.note(f"given up: {reason.value}")
        else:
            self.refuse(reason, detail)

    def note_loss(self) -> None:
        """Say so where the budget was spent and the round ended without a release."""
        data = self.machine.data
        if self.machine.ended and self.machine.spent and data.manifest is None:
            words = "the round ended" if data.reason is None else data.reason.words
            detail = "; ".join((words, *data.details))
            self.notes.append(("spent, nothing released", detail))


def do_task(agent: Agent, book: RoundBook, task: OwnerTask) -> bool:
    """Do what a round waits for; False where it waits for somebody else."""
    return {
        OwnerTask.OFFER: _offer,
        OwnerTask.CHECK_PLAN: _check_plan,
        OwnerTask.APPROVE: _approve,
        OwnerTask.BLIND: _blind,
        OwnerTask.RAISE: _raise,
        OwnerTask.FINISH: _finish,
        OwnerTask.PROTECT: _protect,
        OwnerTask.COUNT: _count,
    }[task](agent, book)


def _offer(agent: Agent, book: RoundBook) -> bool:
    machine, home = book.machine, agent.home
    terms = machine.data.terms
    assert terms is not None
    objection = home.policy.objection(terms, agent.aggregator_key) or agent.rolled_back()
    if not terms.signed_release:
        what = "the terms do not say that the aggregator signs the release"
        objection = objection or (Reason.RELEASE_UNSIGNED, what)
    if objection is not None:
        book.refuse(*objection)
        return True
    source = home.source()
    shared = source.shared_schema(home.policy)
    text = write_schema(shared)
    if len(text) > MOST_TEXT:
        what = f"the schema is {len(text)} bytes long; at most {MOST_TEXT} can be offered"
        book.refuse(Reason.TOO_LARGE, what)
        return True
    linked = terms.linkage is not Linkage.NONE
    loaded = home.load(terms.round, shared, linked=linked)
    machine.data.table = loaded.identity
    mask_key = public_key(home.seed) if sums_rows(terms) else None
    offer = Offer(
        schema=text,
        rows=loaded.rows,
        key=bool(source.key),
        mask_key=mask_key,
        coded=_offers_coded(agent, terms) or None,
    )
    book.note("offered", machine.offer(offer))
    return True


def _offers_coded(agent: Agent, terms: Terms) -> bool:
    """Whether to deliver coded columns: to an aggregator that takes them, and as the first time.

    A round that repeats another one has the same bytes, whichever version began that.
    """
    if sums_rows(terms) or not agent.client.takes_coded:
        return False
    if terms.repeats is None:
        return True
    plans = (data.plan for data in agent.journal.rounds(all=True))
    return any(plan.coded for plan in plans if plan and terms.repeats in (plan.hash, plan.tag))


def _check_plan(agent: Agent, book: RoundBook) -> bool:
    machine = book.machine
    plan = machine.data.agreed
    wrong = machine.recompute() or agent.home.policy.objection_to_plan(plan, agent.name)
    wrong = wrong or guessing_objection(agent.journal, agent.home.policy, machine, now=agent.now())
    wrong = wrong or outbox.repetition_objection(agent.journal, machine)
    wrong = wrong or outbox.objection(agent.home, agent.ledger, machine)
    if wrong is not None:
        book.refuse(*wrong)
    else:
        machine.plan_passed()
        book.note("plan checked")
    return True


def _approve(agent: Agent, book: RoundBook) -> bool:
    machine = book.machine
    decision = agent.journal.decision(machine.data.round)
    plan = machine.data.agreed
    policy = agent.home.policy
    if decision is None and (not policy.automatic or policy.strangers(plan, agent.name)):
        agent.home.forget_table()  # a person may take days
        return False
    if decision == "refuse":
        book.refuse(Reason.NOT_INTERESTED, "a person refused")
        return True
    how = "by policy" if decision is None else "by a person"
    message = machine.approve(agent.key.sign_plan(plan.hash))
    book.note(f"approved {how}", message)
    return True


def _blind(agent: Agent, book: RoundBook) -> bool:
    machine = book.machine
    made = linking.blind(agent.home, machine)
    message = machine.blinded(count=made.count, attachment=made.attachment)
    book.note("blinded", message, {"attachment": made.path})
    return True


def _raise(agent: Agent, book: RoundBook) -> bool:
    machine = book.machine
    made = linking.raise_batch(agent.home, machine, agent.client)
    check_raised(agent.journal, machine, machine.data.to_raise[0].origin, made.attachment)
    book.note("raised", machine.raised(made.attachment), {"attachment": made.path})
    return True


def _finish(agent: Agent, book: RoundBook) -> bool:
    machine = book.machine
    made = linking.finish(agent.home, machine, agent.client)
    message = machine.named(count=made.count, attachment=made.attachment)
    book.note("named", message, {"attachment": made.path})
    return True


def _protect(agent: Agent, book: RoundBook) -> bool:
    machine, home = book.machine, agent.home
    plan = machine.data.agreed
    assert machine.state is OwnerState.APPROVED
    if plan.terms.kind.joins:
        assert machine.data.common is not None
        people = machine.data.common.size // 32
        most = min(share.rows for share in plan.shares)
        if plan.terms.kind is Kind.BLOCKS:
            most = min(most, plan.share(machine.data.owner).rows)
        if people < FEW_MATCH * most:
            what = f"{people} of at most {most}: compare how each owner writes its keys"
            book.notes.append(("few people matched", what))
        wrong = home.policy.objection_to_rows(people)
        if wrong is not None:
            book.refuse(Reason.TOO_FEW_COMMON, wrong[1])
            return True
    is_made = outbox.made(home, agent.ledger, machine)
    if not is_made:
        wrong = outbox.objection(home, agent.ledger, machine) or agent.rolled_back()
        if wrong is not None:
            book.refuse(*wrong)
            return True
    reach("owner.protecting")
    delivery, files = outbox.deliver(home, agent.ledger, machine, agent.client, is_made=is_made)
    reach("owner.outbox")
    book.note("protected and charged", machine.protected(delivery), files)
    return True


def _count(agent: Agent, book: RoundBook) -> bool:
    """Answer a question of a round of sums; nothing is answered that the plan does not pay for."""
    machine, home = book.machine, agent.home
    if not machine.spent:
        wrong = outbox.objection(home, agent.ledger, machine) or agent.rolled_back()
        if wrong is not None:
            book.refuse(*wrong)
            return True
    elif (wrong := agent.rolled_back()) is not None:
        book.give_up(*wrong)
        return True
    try:
        body, files = owner_counting.answer(home, agent.ledger, machine, agent.client)
    except PeerError as error:
        book.give_up(reason_of(error.reason) or Reason.MALFORMED, error.what)
        return True
    reach("owner.outbox")
    book.note(f"answered question {body.exchange}", machine.counted(body), files)
    return True
