"""The owner's agent: it dials out, does what the protocol machine asks for, and sends.

Order of events for every step: take what the aggregator sent, do the work, write the rounds
and what they send into the journal in one transaction, send. What was not written down is
fetched and done again. For protecting, the ledger comes first: the charge and the artefact's
place are one transaction (``sherd.release.protect``), and an artefact that is paid for is found
again and sent, never made a second time.

One exchange with the aggregator sends what waits and brings what came, waiting for it if
need be.

Nothing that the aggregator sends ends the agent, and no round stops another: a task that fails
is tried again and given up after ``MOST_TRIES``, even where it took the whole process with it;
an aggregator that answers nonsense is called again after a pause that grows.
"""

from __future__ import annotations

import contextlib
import random
import time
from typing import TYPE_CHECKING

from sherd.budget.ledger import Ledger
from sherd.errors import (
    BudgetError,
    ConnectionFailedError,
    OutsideError,
    PeerError,
    SherdError,
    StorageError,
)
from sherd.federation.owner import outbox
from sherd.federation.owner import owner_linking as linking
from sherd.federation.owner.agent_duties import Announcer, Renewer
from sherd.federation.owner.owner_journal import Outgoing, OwnerJournal
from sherd.federation.owner.owner_tasks import RoundBook, do_task
from sherd.federation.owner.release_taking import end_overdue, take_releases
from sherd.federation.owner.sending import Sender, batches
from sherd.federation.protocol.messages import Abort
from sherd.federation.protocol.owner_machine import OwnerTask
from sherd.federation.protocol.reasons import FINAL, Reason, reason_of
from sherd.federation.wire.envelope import open_envelope
from sherd.federation.wire.failpoints import reach

if TYPE_CHECKING:
    from collections.abc import Callable

    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.protocol.messages import Message
    from sherd.federation.wire.client import Client

REMEMBERED = 30 * 24 * 3600
"""How long after its deadline a round may still be spoken of; the aggregator forgets earlier."""

PAUSE, MOST_PAUSE = 0.2, 60.0
"""Seconds to wait when something fails: at first, and at most. Doubled while nothing works."""

MOST_TRIES = 8
"""How often a task of a round is tried before the round is given up."""


class Agent:
    """One owner's agent."""

    def __init__(
        self,
        home: OwnerHome,
        client: Client,
        *,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        home.check_recovered()
        self.home = home
        self.client = client
        self.name = home.settings.name
        self.key = home.key
        enrolled = home.enrolled
        self.aggregator, self.aggregator_key = enrolled["aggregator"], enrolled["key"]
        self.ledger = Ledger(home.ledger)
        self.journal = OwnerJournal(home.journal)
        self._clock = clock
        self._sleep = sleep
        self.released = self.journal.unfetched(since=self.now() - REMEMBERED)
        """Rounds whose releases are out and were not fetched yet."""
        self._left = self._fruitless = self._waiting = self._stopping = self._holds = False
        self._said: set[tuple[str, str, str]] = set()
        self.sender = Sender(self.journal, refused=self._rejected, failed=self._cannot_send)
        self.ask_again = self.fetch_again = 0
        """When to ask again after rounds that are overdue, and for releases that found no room."""
        self._announcer = Announcer(home, client, clock=clock)
        self._renewer = Renewer(home, client, clock=clock)
        outbox.recover(self.ledger)
        outbox.sweep(home, self.ledger)
        self._give_up_what_kills()

    def now(self) -> int:
        """The time in whole seconds."""
        return int(self._clock())

    def rolled_back(self) -> tuple[Reason, str] | None:
        """The objection of an owner whose ledger lacks what the aggregator saw of it last."""
        head = self.client.head
        if head is None or self.home.is_superseded(head) or self.ledger.holds(head):
            return None
        what = "the ledger does not hold the row the aggregator saw last; run `sherd owner recover`"
        return Reason.ROLLED_BACK, what

    # turns

    def run(self, *, wait: float = 20.0, until: Callable[[], bool] = lambda: False) -> None:
        """Take turns until told to stop; whatever fails is tried again after a pause.

        The pauses grow while no call is answered, and differ from owner to owner, so that a
        service that comes back is not called by all of them at once.
        """
        pause, heard = PAUSE, -1
        with contextlib.ExitStack() as held:
            while not (self._stopping or until()):
                trouble = self._try_turn(wait)
                self._hold_ledger(held)
                if trouble is None:
                    pause = PAUSE
                    continue
                self.say(*trouble, request=self.client.request_id)
                lost = trouble[0] == "network" and self.client.answered > heard
                pause = PAUSE if lost else min(pause * 2, MOST_PAUSE)
                heard = self.client.answered
                self._sleep(pause * random.uniform(0.5, 1.5))  # noqa: S311 - jitter is no secret

    def _hold_ledger(self, held: contextlib.ExitStack) -> None:
        """Keep the ledger open while a round goes on and waits for no person, who may take days."""
        wants = self.journal.is_busy and not self._left
        if wants != self._holds:
            self._holds = wants
            with contextlib.suppress(SherdError):
                held.enter_context(self.ledger.kept_open()) if wants else held.close()

    def stop(self) -> None:
        """Take no further turn; an agent that only waits for messages ends at once."""
        self._stopping = True
        if self._waiting:
            raise SystemExit(0)

    def _try_turn(self, wait: float) -> tuple[str, str] | None:
        """One turn; what went wrong with it."""
        try:
            self.turn(wait)
        except ConnectionFailedError as error:
            return "network", error.what
        except StorageError:
            raise  # our own disk: nothing can be written down any more
        except SherdError as error:
            return "trouble", error.what
        except Exception as error:
            return "trouble", type(error).__name__
        if self._fruitless:
            return "trouble", "the aggregator sends messages that cannot be taken"
        return None

    def say(self, kind: str, what: str, round_id: str = "", *, request: str = "") -> None:
        """Write trouble down once, not each time it comes again."""
        trouble = (round_id, kind, what)
        if trouble not in self._said:
            self._said = {*list(self._said)[-20:], trouble}
            self.journal.note(round_id, kind, f"{what} (request {request})" if request else what)

    def turn(self, wait: float = 0.0) -> bool:
        """Do what is left, exchange messages, do what they ask for; what that sends goes next.

        Whether anything happened.
        """
        before = self.work()
        self._announcer.try_announcing(self.say)
        self._renewer.try_renewing(self.say)
        messages: list[bytes] = []
        for waiting in batches(self.journal, always=True):
            messages += self._exchange(waiting, wait)
        fetched, after = self.take(messages)
        self._fruitless = bool(messages) and not (before or fetched or after)
        if not messages:
            end_overdue(self)
        linking.tidy(self.home, self.journal)
        take_releases(self)
        return before or fetched or after

    def _exchange(self, waiting: list[Outgoing], wait: float) -> list[bytes]:
        """Send what waits; what came."""
        seen = self.journal.seen(since=self.now() - REMEMBERED)
        if waiting and len(self.journal.unsent()) > len(waiting):
            wait = 0.0  # there is more to send
        # A task that is left waits for a person or for the disk: look again soon.
        if self._left:
            wait = min(wait, 2.0)
        if self.released and self.now() >= self.fetch_again:  # fetched after this exchange
            wait = min(wait, 0.5)
        self._waiting = True
        try:
            answered, brought = self.sender.send(self.client, waiting, seen=seen, wait=wait)
        finally:
            self._waiting = False
        for message, answer in zip(answered, brought.answers, strict=True):
            self.sender.settle(self.client, message, answer)
        if self.client.received:  # we logged in: an aggregator from a backup may lack messages
            lacking, self.client.received = self.client.received, {}
            waiting = self.journal.unsent()
            fresh = {each.round for each in waiting}
            lacking = {name: last for name, last in lacking.items() if name not in fresh}
            if self.journal.resend(lacking):
                self.say("sent again", "the aggregator lacks what it had acknowledged")
        return list(brought.messages)

    def _cannot_send(self, message: Outgoing, error: Exception) -> None:
        """What was announced is gone or is not what it was: this round cannot go on."""
        book = self._book(message.round)
        book.give_up(Reason.METHOD_FAILED, f"could not send: {type(error).__name__}")
        self._write([book])

    def _rejected(self, message: Outgoing, reason: Reason) -> None:
        self.journal.note(message.round, "the aggregator refused a message", reason.value)
        if reason in FINAL:
            self.end_round(message.round, reason)
            self.journal.acknowledge(message)

    def end_round(self, round_id: str, reason: Reason) -> None:
        """End a round that is over by the aggregator's word, and say what is lost with it."""
        book = self._book(round_id)
        if not book.machine.ended:
            book.machine.expire(reason)
            book.note(f"expired: {reason.value}")
            book.note_loss()
            self._write([book])

    # what the aggregator sent

    def take(self, raws: list[bytes], *, work: bool = True) -> tuple[bool, bool]:
        """Take messages and do what each asks for, which is written down at once.

        No work is done for a round of which a later message says that it is over. Whether any
        was new, and whether they made work.
        """
        messages = [message for raw in raws if (message := self._open(raw)) is not None]
        over = {message.round for message in messages if isinstance(message.body, Abort)}
        new, done = False, False
        for message in messages:
            try:
                book = self._book(message.round)
            except SherdError as error:
                self.say("refused a message", error.what)
                continue
            new |= self._receive(book, message)
            if work and book.changed and message.round not in over:
                done |= self._work_on(book)
            self._write([book])
        return new, done

    def _open(self, raw: bytes) -> Message | None:
        """The message in an envelope; None, and a line in the log, where it is none."""
        try:
            return open_envelope(
                raw,
                key_of=lambda sender: self.aggregator_key if sender == self.aggregator else None,
                recipient=self.name,
                now=self.now(),
            )
        except PeerError as error:
            self.say("refused a message", str(error.reason))
        except Exception as error:
            self.say("refused a message", type(error).__name__)
        return None

    def _receive(self, book: RoundBook, message: Message) -> bool:
        """Take one message; whether it was new."""
        reach("owner.received")
        machine = book.machine
        try:
            new = machine.receive(message)
        except PeerError as error:
            return self._object(book, error)
        if new:
            if machine.data.manifest is not None:
                self.released.add(message.round)
            book.note(f"received {message.type.value}")
            book.note_loss()
        return new

    def _object(self, book: RoundBook, error: PeerError) -> bool:
        """The aggregator broke the protocol: refuse the round if nothing is spent yet."""
        machine = book.machine
        reason = reason_of(error.reason) or Reason.MALFORMED
        gap = reason is Reason.SEQUENCE_GAP
        if machine.ended or machine.spent or machine.data.terms is None or gap:
            self.say("refused a message", reason.value)
            return False
        book.refuse(reason, error.what)
        return True

    def _book(self, round_id: str) -> RoundBook:
        machine = self.home.machine(round_id, self.journal.round(round_id))
        return RoundBook(machine=machine, key=self.key)

    def _write(self, books: list[RoundBook]) -> None:
        changes = [book.change for book in books if book.changed]
        for book in books:
            if book.changed:
                outbox.book_loss(self.home, self.ledger, book.machine)
        if changes:
            self.journal.write(changes)
            reach("owner.stored")
        for book in books:
            if not book.changed:
                self.journal.unchanged(book.machine.data)

    # the owner's work

    def work(self) -> bool:
        """Do what waits in every round; whether anything was done."""
        books = [
            RoundBook(machine=self.home.machine(data.round, data), key=self.key)
            for data in self.journal.rounds()
        ]
        done = []
        for book in books:
            done.append(self._work_on(book))
            self._write([book])  # what the next round may do depends on it
        self._left = any(book.machine.task for book in books)
        if all(book.machine.ended for book in books):
            self.home.forget_table()
        return any(done)

    def _work_on(self, book: RoundBook) -> bool:
        """Do what waits in one round; whether anything was done."""
        done = False
        while self._work(book):
            done = True
        return done

    def _work(self, book: RoundBook) -> bool:
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
        try:
            heavy = task is not OwnerTask.APPROVE
            counts = heavy and task is not OwnerTask.OFFER  # which asks for a head at most
            with (
                self.home.attempting(machine.data.round, heavy=heavy),
                self.ledger.kept_open() if counts else contextlib.nullcontext(),
            ):
                done = do_task(self, book, task)
                self.ledger.settle()
                return done
        except PeerError as error:
            return self._object(book, error)
        except OutsideError as error:
            # Disk or network: nothing is lost, it is tried again.
            self.say(f"could not {task.value}", error.what, machine.data.round)
            if isinstance(error, ConnectionFailedError):
                raise
            return False
        except SherdError as error:
            # What the error says of the table stays here; the aggregator gets a code.
            reason = Reason.BUDGET if isinstance(error, BudgetError) else Reason.METHOD_FAILED
            book.refuse(reason, str(error))
            return True
        except Exception as error:
            return self._stumble(book, task, error)

    def _stumble(self, book: RoundBook, task: OwnerTask, error: Exception) -> bool:
        """A task failed in a way nobody foresaw: try again later, but not for ever."""
        data = book.machine.data
        data.tries = (data.tries or 0) + 1
        what = f"could not {task.value}: {type(error).__name__}"
        book.notes.append((what, f"try {data.tries} of {MOST_TRIES}"))
        if data.tries >= MOST_TRIES:
            book.give_up(Reason.QUARANTINED, what)
        return False

    def _give_up_what_kills(self) -> None:
        """Give up a round whose task was begun again and again and never came to an end."""
        round_id, count = self.home.last_attempt()
        if round_id is not None and count >= MOST_TRIES:
            book = self._book(round_id)
            book.give_up(Reason.QUARANTINED, f"begun {count} times and never done")
            self._write([book])
            self.home.end_attempt()
