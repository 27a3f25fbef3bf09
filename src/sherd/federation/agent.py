"""The owner's agent: it dials out, does what the protocol machine asks for, and sends.

Order of events for every step: do the work, write the round and what it sends into the
journal, send, note that it was received. For protecting, the ledger comes first: the charge
and the artefact's place are one transaction (``sherd.protection``), and an artefact that is
paid for is found again and sent, never made anew.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sherd.budget.amount import Amount
from sherd.budget.ledger import Ledger
from sherd.errors import (
    BudgetError,
    ConnectionFailedError,
    OutsideError,
    PeerError,
    SherdError,
)
from sherd.federation import linking, outbox
from sherd.federation.envelope import open_envelope, seal
from sherd.federation.failpoints import reach
from sherd.federation.journal import FETCHED, Journal, Outgoing
from sherd.federation.keys import verify_plan
from sherd.protocols.knowledge import OwnerData
from sherd.protocols.owner import Owner, OwnerTask
from sherd.protocols.reasons import Reason, reason_of
from sherd.protocols.states import OwnerState
from sherd.protocols.terms import Linkage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sherd.federation.client import Client
    from sherd.federation.home import Home
    from sherd.protocols.messages import Message

REMEMBERED = 30 * 24 * 3600
"""How long after its deadline a round may still be spoken of; the aggregator forgets earlier."""

PAUSE = 0.2
"""Seconds to wait when the network fails; doubled while no call is answered."""

GONE = frozenset({Reason.LATE, Reason.ENDED})
"""Answers that mean: the round is over for us."""

SPOILT = frozenset(
    {
        Reason.SEQUENCE_REUSED, Reason.SEQUENCE_GAP, Reason.SIGNATURE, Reason.PLAN_CHANGED,
        Reason.UNKNOWN_SENDER, Reason.UNKNOWN_CHUNK, Reason.UNEXPECTED, Reason.WRONG_ROUND,
        Reason.MALFORMED, Reason.TOO_LARGE, Reason.STALE, Reason.WRONG_RECIPIENT,
    }
)  # fmt: skip
"""Answers that repeating cannot mend."""


class Agent:
    """One owner's agent."""

    def __init__(
        self, home: Home, client: Client, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.home = home
        self.client = client
        self.name = home.settings.name
        self.key = home.key
        enrolled = home.enrolled
        self.aggregator, self.aggregator_key = enrolled["aggregator"], enrolled["key"]
        self.ledger = Ledger(home.ledger)
        self.journal = Journal(home.journal)
        self._clock = clock
        self._released = self.journal.unfetched(since=self.now() - REMEMBERED)
        outbox.recover(self.ledger)
        outbox.sweep(home, self.ledger)

    def now(self) -> int:
        """The time in whole seconds."""
        return int(self._clock())

    # one turn

    def step(self, *, wait: float = 0.0) -> bool:
        """Send, work, fetch, work, send; whether anything happened."""
        before = self.work()
        self._flush()
        fetched = self._fetch(wait)
        after = self.work()
        self._flush()
        linking.tidy(self.home, self.journal)
        self._take_releases()
        return before or fetched or after

    def run(self, *, wait: float = 20.0, until: Callable[[], bool] = lambda: False) -> None:
        """Step until told to stop; a network that fails is waited for, longer if all of it does."""
        pause, heard = PAUSE, -1
        while not until():
            try:
                self.step(wait=wait)
            except ConnectionFailedError as error:
                self.journal.note("", "network", error.what)
                pause = PAUSE if self.client.answered > heard else min(pause * 2, 30.0)
                heard = self.client.answered
                time.sleep(pause)

    def _fetch(self, wait: float) -> bool:
        # A task that is left waits for a person or for the disk: look again soon.
        left = any(Owner(data, verify=verify_plan).task for data in self.journal.rounds())
        seen = self.journal.seen(since=self.now() - REMEMBERED)
        raws = self.client.inbox(seen, wait=min(wait, 2.0) if left else wait)
        return any(self._receive(raw) for raw in raws)

    def _receive(self, raw: bytes) -> bool:
        try:
            message = open_envelope(
                raw,
                key_of=lambda sender: self.aggregator_key if sender == self.aggregator else None,
                recipient=self.name,
                now=self.now(),
            )
        except PeerError as error:
            self.journal.note("", "refused a message", str(error.reason))
            return False
        reach("owner.received")
        machine = self._machine(message.round)
        try:
            new = machine.receive(message)
        except PeerError as error:
            return self._object(machine, error)
        if new:
            state = machine.state.value
            if machine.data.manifest is not None:
                self._released.add(message.round)
            self.journal.store(machine.data, note=(f"received {message.type.value}", state))
        return new

    def _object(self, machine: Owner, error: PeerError) -> bool:
        """The aggregator broke the protocol: refuse the round if nothing is spent yet."""
        reason = reason_of(error.reason) or Reason.MALFORMED
        spent = machine.state in (OwnerState.PROTECTED, OwnerState.DELIVERED)
        if machine.ended or spent or machine.data.terms is None or reason is Reason.SEQUENCE_GAP:
            self.journal.note(machine.data.round, "refused a message", reason.value)
            return False
        self._refuse(machine, reason, error.what)
        return True

    def _machine(self, round_id: str) -> Owner:
        data = self.journal.round(round_id) or OwnerData(
            round=round_id,
            owner=self.name,
            key=self.key.public,
            aggregator=self.aggregator,
            aggregator_key=self.aggregator_key,
        )
        return Owner(data, verify=verify_plan)

    # the owner's work

    def work(self) -> bool:
        """Do what waits in every round; whether anything was done."""
        done = False
        for data in self.journal.rounds():
            machine = Owner(data, verify=verify_plan)
            while self._work(machine):
                done = True
        return done

    def _work(self, machine: Owner) -> bool:
        """One task of one round; whether there was one."""
        before = machine.state
        machine.tick(self.now())
        if machine.state is not before:
            self.journal.store(machine.data, note=("expired", before.value))
            return False
        task = machine.task
        if task is None:
            return False
        do = {
            OwnerTask.OFFER: self._offer,
            OwnerTask.CHECK_PLAN: self._check_plan,
            OwnerTask.APPROVE: self._approve,
            OwnerTask.BLIND: self._blind,
            OwnerTask.RAISE: self._raise,
            OwnerTask.FINISH: self._finish,
            OwnerTask.PROTECT: self._protect,
        }[task]
        try:
            return do(machine)
        except OutsideError as error:
            if isinstance(error, PeerError):
                return self._object(machine, error)
            # Disk or network: nothing is lost, it is tried again.
            self.journal.note(machine.data.round, f"could not {task.value}", error.what)
            if isinstance(error, ConnectionFailedError):
                raise
            return False
        except SherdError as error:
            # What the error says of the table stays here; the aggregator gets a code.
            reason = Reason.BUDGET if isinstance(error, BudgetError) else Reason.METHOD_FAILED
            self._refuse(machine, reason, str(error))
            return True

    def _store(
        self,
        machine: Owner,
        message: Message | None,
        note: str,
        files: dict[str, Path] | None = None,
    ) -> None:
        outgoing: tuple[Outgoing, ...] = ()
        if message is not None:
            terms = machine.data.terms
            assert terms is not None
            outgoing = (
                Outgoing(
                    round=message.round,
                    sequence=message.sequence,
                    raw=seal(message, self.key, expires=terms.deadline),
                    files={name: str(path) for name, path in (files or {}).items()},
                ),
            )
        self.journal.store(machine.data, outgoing, note=(note, machine.state.value))
        reach("owner.stored")

    def _refuse(self, machine: Owner, reason: Reason, detail: str) -> None:
        message = machine.refuse(reason)
        machine.data.details = (detail,)
        self._store(machine, message, f"refused: {reason.value}")

    def _offer(self, machine: Owner) -> bool:
        terms = machine.data.terms
        assert terms is not None
        policy = self.home.policy
        objection = policy.objection(terms, self.aggregator_key)
        if objection is not None:
            self._refuse(machine, *objection)
            return True
        linked = terms.linkage is not Linkage.NONE
        offer = self.home.source().offer(policy, linked=linked)
        self._store(machine, machine.offer(offer), "offered")
        return True

    def _check_plan(self, machine: Owner) -> bool:
        plan = machine.data.plan
        assert plan is not None
        wrong = machine.recompute() or self.home.policy.objection_to_plan(plan, self.name)
        wrong = wrong or self._about_ledger(machine)
        if wrong is not None:
            self._refuse(machine, *wrong)
        else:
            machine.plan_passed()
            self._store(machine, None, "plan checked")
        return True

    def _about_ledger(self, machine: Owner) -> tuple[Reason, str] | None:
        """Whether the ledger is the one the aggregator saw last, and has enough left."""
        head = machine.data.head
        if head is not None and not self.ledger.holds(head):
            return Reason.ROLLED_BACK, "the ledger does not hold a row that was delivered before"
        witness = outbox.read_witness(self.home)
        if witness is not None and not self.ledger.holds(witness):
            return Reason.ROLLED_BACK, "the ledger does not hold the row its witness has"
        plan = machine.data.plan
        assert plan is not None
        epsilon = plan.share(self.name).epsilon
        if epsilon is None:
            return None
        population = self.home.settings.population
        limit = outbox.apply_lifetime(self.ledger, population, self.home.policy)
        account = self.ledger.account(population)
        if (account.spent + account.reserved + Amount(epsilon)) > limit:
            return Reason.BUDGET, f"{account.left} of epsilon is left of {limit}"
        return None

    def _approve(self, machine: Owner) -> bool:
        decision = self.journal.decision(machine.data.round)
        if decision is None and not self.home.policy.automatic:
            return False
        if decision == "refuse":
            self._refuse(machine, Reason.NOT_INTERESTED, "a person refused")
            return True
        plan = machine.data.plan
        assert plan is not None
        how = "by policy" if decision is None else "by a person"
        message = machine.approve(self.key.sign_plan(plan.hash))
        self._store(machine, message, f"approved {how}")
        return True

    def _blind(self, machine: Owner) -> bool:
        made = linking.blind(self.home, machine)
        self._store(
            machine,
            machine.blinded(count=made.count, attachment=made.attachment),
            "blinded",
            {"attachment": made.path},
        )
        return True

    def _raise(self, machine: Owner) -> bool:
        made = linking.raise_batch(self.home, machine, self.client)
        self._store(machine, machine.raised(made.attachment), "raised", {"attachment": made.path})
        return True

    def _finish(self, machine: Owner) -> bool:
        made = linking.finish(self.home, machine, self.client)
        self._store(
            machine,
            machine.named(count=made.count, attachment=made.attachment),
            "named",
            {"attachment": made.path},
        )
        return True

    def _protect(self, machine: Owner) -> bool:
        wrong = (
            None if outbox.made(self.home, self.ledger, machine) else self._about_ledger(machine)
        )
        if wrong is not None:
            self._refuse(machine, *wrong)
            return True
        reach("owner.protecting")
        delivery, files = outbox.deliver(self.home, self.ledger, machine, self.client)
        reach("owner.outbox")
        self._store(machine, machine.protected(delivery), "protected and charged", files)
        return True

    # sending

    def _flush(self) -> None:
        """Send what was not received yet, in order."""
        stuck: set[str] = set()
        for message in self.journal.unsent():
            if message.round in stuck:
                continue
            try:
                outbox.send(self.client, message)
            except PeerError as error:
                stuck.add(message.round)
                self._rejected(message, reason_of(error.reason) or Reason.UNEXPECTED)
                continue
            self.journal.acknowledge(message)

    def _take_releases(self) -> None:
        """Fetch the releases of closed rounds; what is not as announced is left."""
        for round_id in sorted(self._released):
            data = self.journal.round(round_id)
            if data is None or data.manifest is None or (self.home.releases / round_id).exists():
                self._released.discard(round_id)
                continue
            try:
                outbox.fetch_release(self.home, self.client, round_id, data.manifest)
                self.journal.note(round_id, FETCHED, data.manifest)
            except SherdError as error:
                # It is published all the same, and can be had from the aggregator later.
                self.journal.note(round_id, "could not fetch the release", error.what)
                if isinstance(error, ConnectionFailedError):
                    raise
            self._released.discard(round_id)

    def _rejected(self, message: Outgoing, reason: Reason) -> None:
        machine = self._machine(message.round)
        self.journal.note(message.round, "the aggregator refused a message", reason.value)
        if reason in GONE | SPOILT:
            machine.expire(reason)
            self.journal.store(machine.data)
            self.journal.acknowledge(message)
