"""The owner's agent: it dials out, does what the protocol machine asks for, and sends.

Order of events for every step: take what the aggregator sent, do the work, write the rounds
and what they send into the journal in one transaction, send. What was not written down is
fetched and done again. For protecting, the ledger comes first: the charge and the artefact's
place are one transaction (``sherd.release.protect``), and an artefact that is paid for is found
again and sent, never made anew.

One exchange with the aggregator sends what waits and brings what came, waiting for it if
need be: a round takes an owner five of them.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from sherd.budget.ledger import Ledger
from sherd.errors import (
    BudgetError,
    ConnectionFailedError,
    OutsideError,
    PeerError,
    SherdError,
)
from sherd.federation.owner import outbox
from sherd.federation.owner import owner_linking as linking
from sherd.federation.owner.owner_journal import FETCHED, Journal, Outgoing
from sherd.federation.owner.round_in_progress import Book
from sherd.federation.protocol.joint_plan import Linkage
from sherd.federation.protocol.knowledge import OwnerData
from sherd.federation.protocol.owner_machine import Owner, OwnerTask
from sherd.federation.protocol.reasons import Reason, reason_of
from sherd.federation.protocol.states import OwnerState
from sherd.federation.wire.envelope import open_envelope
from sherd.federation.wire.failpoints import reach
from sherd.signing_keys import verify_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.federation.owner.owner_home import Home
    from sherd.federation.wire.client import Client
    from sherd.federation.wire.exchange import Answer

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
        self.released = self.journal.unfetched(since=self.now() - REMEMBERED)
        """Rounds whose releases are out and were not fetched yet."""
        self._left = False
        outbox.recover(self.ledger)
        outbox.sweep(home, self.ledger)

    def now(self) -> int:
        """The time in whole seconds."""
        return int(self._clock())

    # one turn

    def step(self, *, wait: float = 0.0) -> bool:
        """Work, send and fetch, work, send; whether anything happened."""
        happened = self._turn(wait)
        self._flush()
        return happened

    def run(self, *, wait: float = 20.0, until: Callable[[], bool] = lambda: False) -> None:
        """Take turns until told to stop; a network that fails is waited for.

        The pauses grow while no call at all is answered.
        """
        pause, heard = PAUSE, -1
        while not until():
            try:
                self._turn(wait)
            except ConnectionFailedError as error:
                self.journal.note("", "network", error.what)
                pause = PAUSE if self.client.answered > heard else min(pause * 2, 30.0)
                heard = self.client.answered
                time.sleep(pause)

    def _turn(self, wait: float) -> bool:
        """Do what is left, exchange messages, do what they ask for; what it sends goes next."""
        before = self.work()
        fetched, after = self._exchange(wait)
        linking.tidy(self.home, self.journal)
        self._take_releases()
        return before or fetched or after

    def _fetch(self, wait: float) -> bool:
        """Take what the aggregator sent, and nothing more."""
        return self._take(self._messages([], wait), work=False)[0]

    def _flush(self) -> None:
        """Send what was not received yet, in order."""
        for waiting in outbox.batches(self.journal):
            self._sent(waiting, outbox.exchange(self.client, waiting).answers)

    def _exchange(self, wait: float) -> tuple[bool, bool]:
        """Send what waits and take what came; whether any came, and whether it made work."""
        messages: list[bytes] = []
        for waiting in outbox.batches(self.journal, always=True):
            messages += self._messages(waiting, wait)
        return self._take(messages, work=True)

    def _messages(self, waiting: list[Outgoing], wait: float) -> list[bytes]:
        seen = self.journal.seen(since=self.now() - REMEMBERED)
        if waiting and len(self.journal.unsent()) > len(waiting):
            wait = 0.0  # there is more to send
        # A task that is left waits for a person or for the disk: look again soon.
        if self._left:
            wait = min(wait, 2.0)
        if self.released:  # they are fetched after this exchange
            wait = min(wait, 0.5)
        found = outbox.exchange(self.client, waiting, seen=seen, wait=wait)
        self._sent(waiting, found.answers)
        return list(found.messages)

    def _sent(self, waiting: list[Outgoing], answers: tuple[Answer, ...]) -> None:
        for message, answer in zip(waiting, answers, strict=True):
            if answer.reason is not None:
                self._rejected(message, answer.reason)
            elif outbox.upload(self.client, message, answer.wanted):
                self.journal.acknowledge(message)

    def _take(self, raws: list[bytes], *, work: bool) -> tuple[bool, bool]:
        """Take messages and do what each asks for, which is written down at once."""
        new, done = [], []
        for raw in raws:
            books: dict[str, Book] = {}
            new.append(self._receive_into(books, raw))
            if work:
                done += [self._work_on(book) for book in books.values() if book.changed]
            self._write(books)
        return any(new), any(done)

    def _receive(self, raw: bytes) -> bool:
        """Take one message, and nothing more; whether it was new."""
        return self._take([raw], work=False)[0]

    def _receive_into(self, books: dict[str, Book], raw: bytes) -> bool:
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
        if message.round not in books:
            books[message.round] = Book(machine=self._machine(message.round), key=self.key)
        book = books[message.round]
        machine = book.machine
        try:
            new = machine.receive(message)
        except PeerError as error:
            return self._object(book, error)
        if new:
            if machine.data.manifest is not None:
                self.released.add(message.round)
            book.note(f"received {message.type.value}")
        return new

    def _write(self, books: dict[str, Book]) -> None:
        changes = [book.change for book in books.values() if book.changed]
        if changes:
            self.journal.write(changes)
            reach("owner.stored")
        for book in books.values():
            if not book.changed:
                self.journal.unchanged(book.machine.data)

    def _object(self, book: Book, error: PeerError) -> bool:
        """The aggregator broke the protocol: refuse the round if nothing is spent yet."""
        machine = book.machine
        reason = reason_of(error.reason) or Reason.MALFORMED
        spent = machine.state in (OwnerState.PROTECTED, OwnerState.DELIVERED)
        if machine.ended or spent or machine.data.terms is None or reason is Reason.SEQUENCE_GAP:
            self.journal.note(machine.data.round, "refused a message", reason.value)
            return False
        book.refuse(reason, error.what)
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
        books = {
            data.round: Book(machine=Owner(data, verify=verify_plan), key=self.key)
            for data in self.journal.rounds()
        }
        done = [self._work_on(book) for book in books.values()]
        self._left = any(book.machine.task for book in books.values())
        self._write(books)
        return any(done)

    def _work_on(self, book: Book) -> bool:
        """Do what waits in one round; whether anything was done."""
        done = False
        while self._work(book):
            done = True
        return done

    def _work(self, book: Book) -> bool:
        """One task of one round; whether there was one."""
        machine = book.machine
        before = machine.state
        machine.tick(self.now())
        if machine.state is not before:
            book.notes.append(("expired", before.value))
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
            return do(book)
        except OutsideError as error:
            if isinstance(error, PeerError):
                return self._object(book, error)
            # Disk or network: nothing is lost, it is tried again.
            self.journal.note(machine.data.round, f"could not {task.value}", error.what)
            if isinstance(error, ConnectionFailedError):
                raise
            return False
        except SherdError as error:
            # What the error says of the table stays here; the aggregator gets a code.
            reason = Reason.BUDGET if isinstance(error, BudgetError) else Reason.METHOD_FAILED
            book.refuse(reason, str(error))
            return True

    def _offer(self, book: Book) -> bool:
        machine = book.machine
        terms = machine.data.terms
        assert terms is not None
        policy = self.home.policy
        objection = policy.objection(terms, self.aggregator_key)
        if objection is not None:
            book.refuse(*objection)
            return True
        linked = terms.linkage is not Linkage.NONE
        offer = self.home.source().offer(policy, linked=linked)
        book.note("offered", machine.offer(offer))
        return True

    def _check_plan(self, book: Book) -> bool:
        machine = book.machine
        plan = machine.data.plan
        assert plan is not None
        wrong = machine.recompute() or self.home.policy.objection_to_plan(plan, self.name)
        wrong = wrong or outbox.objection(self.home, self.ledger, machine)
        if wrong is not None:
            book.refuse(*wrong)
        else:
            machine.plan_passed()
            book.note("plan checked")
        return True

    def _approve(self, book: Book) -> bool:
        machine = book.machine
        decision = self.journal.decision(machine.data.round)
        if decision is None and not self.home.policy.automatic:
            return False
        if decision == "refuse":
            book.refuse(Reason.NOT_INTERESTED, "a person refused")
            return True
        plan = machine.data.plan
        assert plan is not None
        how = "by policy" if decision is None else "by a person"
        message = machine.approve(self.key.sign_plan(plan.hash))
        book.note(f"approved {how}", message)
        return True

    def _blind(self, book: Book) -> bool:
        machine = book.machine
        made = linking.blind(self.home, machine)
        message = machine.blinded(count=made.count, attachment=made.attachment)
        book.note("blinded", message, {"attachment": made.path})
        return True

    def _raise(self, book: Book) -> bool:
        machine = book.machine
        made = linking.raise_batch(self.home, machine, self.client)
        book.note("raised", machine.raised(made.attachment), {"attachment": made.path})
        return True

    def _finish(self, book: Book) -> bool:
        machine = book.machine
        made = linking.finish(self.home, machine, self.client)
        message = machine.named(count=made.count, attachment=made.attachment)
        book.note("named", message, {"attachment": made.path})
        return True

    def _protect(self, book: Book) -> bool:
        machine = book.machine
        wrong = (
            None
            if outbox.made(self.home, self.ledger, machine)
            else outbox.objection(self.home, self.ledger, machine)
        )
        if wrong is not None:
            book.refuse(*wrong)
            return True
        reach("owner.protecting")
        delivery, files = outbox.deliver(self.home, self.ledger, machine, self.client)
        reach("owner.outbox")
        book.note("protected and charged", machine.protected(delivery), files)
        return True

    # afterwards

    def _take_releases(self) -> None:
        """Fetch the releases of closed rounds; what is not as announced is left."""
        for round_id in sorted(self.released):
            data = self.journal.round(round_id)
            if data is None or data.manifest is None or (self.home.releases / round_id).exists():
                self.released.discard(round_id)
                continue
            try:
                outbox.fetch_release(self.home, self.client, round_id, data.manifest)
                self.journal.note(round_id, FETCHED, data.manifest)
            except SherdError as error:
                # It is published all the same, and can be had from the aggregator later.
                self.journal.note(round_id, "could not fetch the release", error.what)
                if isinstance(error, ConnectionFailedError):
                    raise
            self.released.discard(round_id)

    def _rejected(self, message: Outgoing, reason: Reason) -> None:
        machine = self._machine(message.round)
        self.journal.note(message.round, "the aggregator refused a message", reason.value)
        if reason in GONE | SPOILT:
            machine.expire(reason)
            self.journal.acknowledge(message)
            self.journal.store(machine.data)
