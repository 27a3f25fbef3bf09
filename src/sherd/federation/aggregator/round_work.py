"""The aggregator's work, between the protocol machine, the storage and the release.

Every call is safe to repeat: a message that is known is acknowledged again, a chunk that is
there stays there, linking and assembling start over after a crash and end in one release.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from sherd.errors import OutsideError, PeerError, UsageError
from sherd.federation.aggregator.announced import check_announced
from sherd.federation.aggregator.batching import Together
from sherd.federation.aggregator.bell import Letters, letters_of
from sherd.federation.aggregator.round_tasks import check_deliveries, link, publish, sum_answers
from sherd.federation.aggregator.storage import Member, RoundWork, Sent, Store
from sherd.federation.aggregator.storage.statements import forgotten_rounds
from sherd.federation.aggregator.storage.upkeep import shrink
from sherd.federation.protocol.joint_plan import OVERLAP_TOLD, Kind, Linkage
from sherd.federation.protocol.knowledge import RoundData
from sherd.federation.protocol.messages import Delivery, Masked, Message, attachments
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.round_machine import Round, RoundTask
from sherd.federation.protocol.states import ROUND_TASKS, RoundState
from sherd.federation.wire.chunks import check_chunk
from sherd.federation.wire.envelope import open_envelope, seal
from sherd.federation.wire.failpoints import reach
from sherd.signing_keys import SigningKey, verify_plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sherd.federation.aggregator.storage.statements import RoundSummary
    from sherd.federation.protocol.joint_plan import Terms
    from sherd.federation.wire.openid_provider import Provider

MOST_TRIES = 5
"""How often linking, checking or assembling is begun before a round is given up."""

Listener = Callable[[Letters], None]


@dataclass(kw_only=True)
class _Incoming:
    """A message that came, with its sender's key now and what it brought; then its answer."""

    message: Message
    key: str | None
    given: Mapping[str, bytes | memoryview]
    wanted: list[str] = field(default_factory=list)
    error: PeerError | None = None


class Aggregator:
    """One aggregator: its name, its key, its storage and its folder of releases."""

    def __init__(
        self,
        *,
        name: str,
        key: SigningKey,
        store: Store,
        releases: Path,
        clock: Callable[[], float] = time.time,
        listener: Listener = lambda _told: None,
        certify: Callable[[str, str, str], bytes] | None = None,
        provider: Provider | None = None,
    ) -> None:
        self.name = name
        self.key = key
        self.store = store
        self.releases = releases
        self._clock = clock
        self.certify = certify
        """Issues a certificate to an owner's name and key for its request; None: not here."""
        self.provider = provider
        """Where people log in; None: nowhere, they have tokens."""
        self._together = Together(self._take)
        self._purged = False
        self.listener = listener
        """Called with the letters sent: none where only a round's state may have changed."""

    def now(self) -> int:
        """The time in whole seconds."""
        return int(self._clock())

    def open_round(self, terms: Terms, *, actor: str | None = None) -> None:
        """Begin a round: invite every owner."""
        if terms.aggregator != self.name:
            raise UsageError("the terms belong to another aggregator", got=repr(terms.aggregator))
        if terms.deadline <= self.now():
            raise UsageError("the deadline has already passed")
        terms = replace(
            terms, opened=self.now(), delivery_bytes=terms.most_bytes, signed_release=True
        )
        tested = terms.kind is not Kind.VERTICAL and terms.linkage is not Linkage.NONE
        if tested and terms.repeats is None and terms.overlap_told is None:
            terms = replace(terms, overlap_told=OVERLAP_TOLD)
        keys = {}
        for owner in terms.owners:
            member = self.store.member(owner)
            if member is None or member.role != "owner" or member.key is None:
                raise UsageError(
                    f"owner '{owner}' is not enrolled",
                    do="enrol it with `sherd aggregator enrol`",
                )
            keys[owner] = member.key
        check_announced(self, terms)
        machine = self.machine(RoundData(terms=terms, aggregator_key=self.key.public, keys=keys))
        messages = machine.open()
        sent = self._seal(machine, messages)
        self.store.add_round(machine.data, now=self.now(), sent=sent, actor=actor)
        self.listener(letters_of(messages, (each.raw for each in sent)))

    def repeat(self, round_id: str, *, name: str, deadline: int) -> Terms:
        """Begin a round once more that ended without a release after its plan was signed."""
        data = self.store.round(round_id)
        if data is None or data.plan is None or data.state is RoundState.RELEASED:
            raise UsageError(
                "there is nothing to repeat",
                must="a round that had a plan and ended without a release",
                got=repr(round_id),
            )
        terms = replace(data.terms, round=name, deadline=deadline, repeats=data.plan.tag)
        self.open_round(terms)
        return terms

    def machine(self, data: RoundData) -> Round:
        """The protocol machine of a round."""
        return Round(data, verify=verify_plan)

    def _seal(self, machine: Round, messages: list[Message]) -> list[Sent]:
        return [
            Sent(
                recipient=message.recipient,
                sequence=message.sequence,
                raw=seal(message, self.key, expires=machine.data.terms.deadline),
                chunks=tuple(c for a in attachments(message.body).values() for c in a.chunks),
            )
            for message in messages
        ]

    def keep(self, work: RoundWork, machine: Round, messages: list[Message]) -> Letters:
        """Write down what the round knows and sends; who gets what."""
        sent = self._seal(machine, messages)
        work.save(sent, now=self.now())
        if machine.ended:
            work.purge()
            self._purged = True
        return letters_of(messages, (each.raw for each in sent))

    # what owners send

    def receive(
        self,
        owner: str,
        round_id: str,
        raw: bytes,
        chunks: Sequence[bytes | memoryview] = (),
        *,
        member: Member | None = None,
    ) -> list[str]:
        """Take an envelope of an owner and chunks it announces; those that have not come."""
        known = member or self.store.member(owner)
        message = open_envelope(
            raw,
            key_of=lambda sender: known.key if known and sender == owner else None,
            recipient=self.name,
            now=self.now(),
        )
        if message.sender != owner or message.round != round_id:
            raise Reason.WRONG_ROUND.error()
        given = {hashlib.sha256(chunk).hexdigest(): chunk for chunk in chunks}
        job = _Incoming(message=message, key=known.key if known else None, given=given)
        self._together.do(round_id, job)
        if job.error is None:
            return job.wanted
        if job.error.reason is Reason.LATE:
            self.tick(round_id)
        raise job.error

    def _take(self, round_id: str, jobs: list[_Incoming]) -> None:
        """Messages for one round in one transaction; a refused one changes nothing."""
        letters: Letters = {}
        with self.store.working(round_id) as work:
            if work is None:
                for job in jobs:
                    job.error = _no_round()
                return
            machine, messages, changed = self.machine(work.data), list[Message](), False
            for job in jobs:
                try:
                    if self._is_new(work, job):
                        reach("aggregator.received")
                        messages += self._accept(work, machine, job)
                        changed = True
                    elif job.given:
                        completed = self._put_chunks(work, job)
                        for sender, sequence in completed:
                            messages += machine.attached(sender, sequence)
                        changed |= bool(completed)
                    job.wanted = self._wanted(work, job.message)
                except PeerError as error:
                    job.error = error
            if changed:
                letters = self.keep(work, machine, messages)
            elif not any(job.error for job in jobs):
                work.unchanged = True
            waits = changed and machine.task is not None
        reach("aggregator.stored")
        if letters or waits:
            self.listener(letters)

    def _is_new(self, work: RoundWork, job: _Incoming) -> bool:
        """Whether a message has not come before; refuses whose it is not, and another's number."""
        owner = job.message.sender
        if owner not in work.data.keys:
            raise _no_round()
        # The key a round began with counts, while the owner is still enrolled with it.
        if job.key != work.data.keys[owner]:
            raise Reason.SIGNATURE.error()
        known = work.known_message(owner, job.message.sequence)
        if known is not None and known != hashlib.sha256(job.message.raw.encode()).hexdigest():
            raise Reason.SEQUENCE_REUSED.error()
        return known is None

    def _wanted(self, work: RoundWork, message: Message) -> list[str]:
        announces = bool(attachments(message.body))
        return work.wanted(message.sender, message.sequence) if announces else []

    def _accept(self, work: RoundWork, machine: Round, job: _Incoming) -> list[Message]:
        message = job.message
        if machine.may_complete(message):
            machine.data.heads = work.heads(machine.data.keys)
        messages = machine.receive(message, now=self.now())
        bulk = attachments(message.body).values()
        chunks = [sha256 for each in bulk for sha256 in each.chunks]
        raw = message.raw.encode("ascii")
        completed = work.add_message(
            message.sender, message.sequence, raw, chunks, given=job.given, now=self.now()
        )
        if job.given:
            reach("aggregator.chunk")
        if isinstance(message.body, Delivery | Masked):
            work.set_head(message.sender, message.body.head, now=self.now())
        if bulk and not self._wanted(work, message):
            completed.append((message.sender, message.sequence))
        for sender, sequence in completed:
            messages += machine.attached(sender, sequence)
        return messages

    def _put_chunks(self, work: RoundWork, job: _Incoming) -> list[tuple[str, int]]:
        """Take chunks of a message that came before; the messages that they completed."""
        completed = []
        for sha256 in self._wanted(work, job.message):
            if sha256 in job.given:
                completed += work.put_chunk(job.message.sender, sha256, job.given[sha256]) or []
        reach("aggregator.chunk")
        return completed

    def put_chunk(self, owner: str, round_id: str, sha256: str, data: bytes) -> None:
        """Take a chunk that the owner announced."""
        check_chunk(sha256, data)
        with self.store.working(round_id) as work:
            if work is None or owner not in work.data.keys:
                raise _no_round()
            completed = work.put_chunk(owner, sha256, data)
            if completed is None:
                raise Reason.UNKNOWN_CHUNK.error()
            machine = self.machine(work.data)
            messages: list[Message] = []
            letters: Letters = {}
            for sender, sequence in completed:
                messages += machine.attached(sender, sequence)
            if completed:
                letters = self.keep(work, machine, messages)
            else:
                work.unchanged = True
            reach("aggregator.chunk")
        if completed:
            self.listener(letters)

    # what the aggregator does by itself

    def tick(self, round_id: str) -> None:
        """Let a round notice its deadline."""
        letters: Letters = {}
        with self.store.working(round_id) as work:
            assert work is not None
            machine = self.machine(work.data)
            before = machine.state
            messages = machine.tick(self.now())
            if messages or machine.state is not before:
                letters = self.keep(work, machine, messages)
        self.listener(letters)

    def abort(
        self,
        round_id: str,
        reason: Reason = Reason.STOPPED,
        *details: str,
        actor: str | None = None,
    ) -> None:
        """End a round without a release."""
        with self.store.working(round_id) as work:
            if work is None:
                raise _no_round()
            machine = self.machine(work.data)
            letters = self.keep(work, machine, machine.fail(reason, details))
            if actor is not None:
                work.log("round stopped", reason.value, now=self.now(), actor=actor)
        self.listener(letters)

    def revoke(self, name: str) -> list[str]:
        """Take somebody's access away and end the rounds it is part of; which they were."""
        if not self.store.remove_member(name, now=self.now()):
            raise UsageError("nobody with that name is enrolled", got=repr(name))
        ended = []
        for round_id in (each.id for each in self.store.unfinished()):
            data = self.store.round(round_id)
            if data is not None and name in data.keys and name not in data.dropped:
                self.abort(round_id, Reason.STOPPED, f"{name} has no access any more")
                ended.append(round_id)
        return ended

    def work(self) -> list[str]:
        """Do what waits to be done in any round: deadlines, linking, checking, assembling.

        A round that fails stops no other; one that fails again and again is ended.
        """
        done, trouble = [], None
        for each in self.store.unfinished():
            try:
                if self._work_on(each):
                    done.append(each.id)
            except Exception as error:
                trouble = trouble or error
        if self._purged:
            self._purged = False
            shrink(self.store)
        if trouble is not None:
            raise trouble
        return done

    def notice(self, owner: str, seen: Mapping[str, int]) -> None:
        """End rounds of which an owner has seen more than we know: we are a restored backup."""
        for round_id in forgotten_rounds(self.store, owner, seen):
            self.abort(round_id, Reason.RESTORED)

    def _work_on(self, each: RoundSummary) -> bool:
        """Do what waits to be done in one round; whether anything did."""
        round_id = each.id
        if each.deadline < self.now():
            self.tick(round_id)
        if each.state not in ROUND_TASKS:
            return False
        data = self.store.round(round_id)
        task = None if data is None else self.machine(data).task
        if data is None or task is None:
            return False
        if not self._begin(round_id):
            return True
        try:
            do = {
                RoundTask.LINK: link,
                RoundTask.CHECK: check_deliveries,
                RoundTask.SUM: sum_answers,
                RoundTask.ASSEMBLE: publish,
            }[task]
            do(self, round_id, data)
        except OutsideError:
            self._begin(round_id, by=-1)  # the disk or the database, not the round
            raise
        return True

    def _begin(self, round_id: str, by: int = 1) -> bool:
        """Count a try before it is made: one that takes the process with it counts, too."""
        with self.store.working(round_id) as work:
            assert work is not None
            machine = self.machine(work.data)
            tries = (machine.data.tries or 0) + by
            machine.data.tries = tries or None
            out = machine.fail(Reason.QUARANTINED) if tries > MOST_TRIES else []
            letters = self.keep(work, machine, out)
        self.listener(letters)
        return tries <= MOST_TRIES

    def folder(self, round_id: str) -> Path:
        """Where a round's release is."""
        return self.releases / round_id


def _no_round() -> PeerError:
    return Reason.WRONG_ROUND.error("there is no such round for you")
