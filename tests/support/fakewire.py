"""A wire without sockets that joins the aggregator's and the owners' machines.

Both sides keep what they know as JSON between any two steps, as real processes do, so that
a restart is reading it back. Packets in flight can be lost, repeated and reordered; senders
send again whatever is not acknowledged. Artefacts carry random bytes, so that protecting
twice for one plan would show.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass, field
from typing import Any

from sherd.errors import PeerError
from sherd.federation.protocol.agreement import at_two_owners, column_groups, common_people
from sherd.federation.protocol.joint_plan import Linkage, Offer, Terms
from sherd.federation.protocol.knowledge import OwnerData, RoundData
from sherd.federation.protocol.linkage import (
    Secret,
    canonical_identifier,
    keyed_pseudonyms,
    listed,
    overlap,
)
from sherd.federation.protocol.messages import Attachment, Delivery, Message, attachments
from sherd.federation.protocol.owner_machine import Owner, OwnerTask
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.round_machine import Round, RoundTask
from sherd.values import canonical, from_data, to_data

AGGREGATOR = "aggregator"
AGGREGATOR_KEY = "key-of-aggregator"


def key_of(owner: str) -> str:
    """A stand-in for an owner's public key."""
    return f"key-of-{owner}"


def sign(key: str, plan_hash: str) -> str:
    """A stand-in for a signature."""
    return hashlib.sha256(f"{key}|{plan_hash}".encode()).hexdigest()


def verify(key: str, plan_hash: str, signature: str) -> bool:
    """Whether the stand-in matches."""
    return sign(key, plan_hash) == signature


def attach(data: bytes) -> Attachment:
    """The announcement of small bulk."""
    sha = hashlib.sha256(data).hexdigest()
    return Attachment(sha256=sha, size=len(data), chunks=(sha,) if data else ())


@dataclass
class Party:
    """One owner: its people, what it wrote down, its ledger and what it sent."""

    name: str
    schema: dict[str, Any]
    people: tuple[str, ...]
    approves: bool = True
    policy: Reason | None = None
    stored: str = ""
    outbox: list[Message] = field(default_factory=list)
    acknowledged: int = 0
    bulk: dict[str, bytes] = field(default_factory=dict)
    charges: list[str] = field(default_factory=list)
    artefacts: dict[str, bytes] = field(default_factory=dict)
    common: bytes = b""
    die_after_charge: bool = False

    def offer(self) -> Offer:
        """What the owner offers."""
        return Offer(schema=json.dumps(self.schema), rows=len(self.people), key=True)

    def load(self) -> Owner:
        """The owner's machine as it was written down."""
        return Owner(from_data(OwnerData, json.loads(self.stored)), verify=verify)

    def store(self, machine: Owner, *messages: Message) -> None:
        """Write the machine and what it sends down, in one step."""
        self.stored = canonical(to_data(machine.data)).decode()
        self.outbox += messages

    def protect(self, plan_hash: str) -> bytes:
        """Protect and charge, once for a plan."""
        if plan_hash not in self.artefacts:
            self.artefacts[plan_hash] = secrets.token_bytes(16)
            self.charges.append(plan_hash)
        return self.artefacts[plan_hash]


class FakeWire:
    """A round between parties, and everything that can happen to it."""

    def __init__(self, terms: Terms, parties: list[Party]) -> None:
        self.terms = terms
        self.parties = {party.name: party for party in parties}
        self.now = 0
        self.bulk: dict[str, bytes] = {}
        self.log: dict[tuple[str, int], Message] = {}
        self.out: dict[str, list[Message]] = {party.name: [] for party in parties}
        self.packets: list[tuple[str, Any]] = []
        self.errors: list[PeerError] = []
        self.released: list[dict[str, str]] = []
        data = RoundData(
            terms=terms,
            aggregator_key=AGGREGATOR_KEY,
            keys={party.name: key_of(party.name) for party in parties},
        )
        for party in parties:
            party.stored = canonical(
                to_data(
                    OwnerData(
                        round=terms.round,
                        owner=party.name,
                        key=key_of(party.name),
                        aggregator=AGGREGATOR,
                        aggregator_key=AGGREGATOR_KEY,
                    )
                )
            ).decode()
        machine = Round(data, verify=verify)
        self._keep(machine, machine.open())

    # the aggregator

    def load(self) -> Round:
        """The aggregator's machine as it was written down."""
        return Round(from_data(RoundData, json.loads(self.stored)), verify=verify)

    def _keep(self, machine: Round, messages: list[Message]) -> None:
        self.stored = canonical(to_data(machine.data)).decode()
        for message in messages:
            self.out[message.recipient].append(message)
            self.packets.append(("owner", message))

    def aggregator_receives(self, message: Message) -> None:
        """One message reaches the aggregator."""
        known = self.log.get((message.sender, message.sequence))
        if known is not None:
            if known != message:
                raise PeerError("reused", reason=Reason.SEQUENCE_REUSED)
        else:
            machine = self.load()
            messages = machine.receive(message, now=self.now)
            self.log[message.sender, message.sequence] = message
            self._keep(machine, messages)
        party = self.parties[message.sender]
        party.acknowledged = max(party.acknowledged, message.sequence)
        if attachments(message.body):
            self.packets.append(("bulk", message))

    def bulk_arrives(self, message: Message) -> None:
        """What a message announced reaches the aggregator."""
        party = self.parties[message.sender]
        for attachment in attachments(message.body).values():
            if attachment.size:
                self.bulk[attachment.sha256] = party.bulk[attachment.sha256]
            else:
                self.bulk[attachment.sha256] = b""
        machine = self.load()
        self._keep(machine, machine.attached(message.sender, message.sequence))

    def aggregator_works(self) -> bool:
        """Link or assemble, if it is time to."""
        machine = self.load()
        if machine.task is RoundTask.LINK:
            messages = self._linked(machine)
        elif machine.task is RoundTask.CHECK:
            machine.passed(machine.unchecked[0])
            messages = []
        elif machine.task is RoundTask.ASSEMBLE:
            made = {owner: d.artefact for owner, d in machine.data.deliveries.items()}
            self.released.append(made)
            messages = machine.assembled(hashlib.sha256(str(made).encode()).hexdigest())
        else:
            return False
        self._keep(machine, messages)
        return True

    def _linked(self, machine: Round) -> list[Message]:
        named = machine.data.pseudonyms.items()
        lists = {owner: listed(self.bulk[a.sha256]) for owner, a in named}
        if not machine.data.terms.kind.joins:
            return machine.linked(overlap=overlap(list(lists.values())), count=0, common={})
        plan = machine.data.plan
        assert plan is not None
        groups = column_groups({owner: plan.schema(owner) for owner in plan.owners})
        told = {owner: own.tobytes() for owner, own in common_people(groups, lists).items()}
        count = sum(len(told[owner]) for owner in groups[0]) // 32
        self.bulk |= {attach(own).sha256: own for own in told.values()}
        common = {owner: attach(own) for owner, own in told.items()}
        return machine.linked(overlap=at_two_owners(groups, lists), count=count, common=common)

    # an owner

    def owner_receives(self, message: Message) -> None:
        """One message reaches an owner."""
        party = self.parties[message.recipient]
        machine = party.load()
        if machine.receive(message):
            party.store(machine)

    def owner_works(self, name: str) -> bool:
        """One task of one owner, if there is one; whether there was."""
        party = self.parties[name]
        machine = party.load()
        machine.tick(self.now)
        task, data = machine.task, machine.data
        if task is None:
            party.store(machine)
            return False
        if task is OwnerTask.OFFER:
            sent = [machine.refuse(party.policy) if party.policy else machine.offer(party.offer())]
        elif task is OwnerTask.CHECK_PLAN:
            wrong = machine.recompute()
            sent = [machine.refuse(wrong[0])] if wrong else []
            if not wrong:
                machine.plan_passed()
        elif task is OwnerTask.APPROVE:
            assert data.plan is not None
            sent = [
                machine.approve(sign(key_of(name), data.plan.hash))
                if party.approves
                else machine.refuse(Reason.NOT_INTERESTED)
            ]
        elif task is OwnerTask.PROTECT:
            assert data.plan is not None
            artefact = party.protect(data.plan.hash)
            if party.die_after_charge:
                party.die_after_charge = False
                return True
            sent = [machine.protected(self._delivery(party, artefact))]
            if data.common is not None:
                party.common = self.bulk[data.common.sha256]
        else:
            sent = [self._link(party, machine, task)]
        party.store(machine, *sent)
        self.packets += [("aggregator", message) for message in sent]
        return True

    def _delivery(self, party: Party, artefact: bytes) -> Delivery:
        found = attach(artefact)
        party.bulk[found.sha256] = artefact
        return Delivery(
            artefact=found.sha256,
            files={"data.arrows": found},
            rows=len(party.people),
            head=hashlib.sha256(str(len(party.charges)).encode()).hexdigest(),
        )

    def _link(self, party: Party, machine: Owner, task: OwnerTask) -> Message:
        data = machine.data
        assert data.plan is not None
        identifiers = [canonical_identifier(person) for person in party.people]
        secret = Secret(party.name.encode().ljust(32), data.plan.hash)
        if task is OwnerTask.BLIND:
            batch = secret.blind(identifiers)
            party.bulk[attach(batch).sha256] = batch
            return machine.blinded(count=len(identifiers), attachment=attach(batch))
        if task is OwnerTask.RAISE:
            batch = secret.raise_batch(self.bulk[data.to_raise[0].attachment.sha256])
            party.bulk[attach(batch).sha256] = batch
            return machine.raised(attach(batch))
        if self.terms.linkage is Linkage.HMAC:
            names = keyed_pseudonyms(b"shared", data.plan.hash, identifiers)
        else:
            assert data.returned is not None
            names = secret.finish(self.bulk[data.returned.attachment.sha256])
        listed = b"".join(sorted(names))
        party.bulk[attach(listed).sha256] = listed
        return machine.named(count=len(names), attachment=attach(listed))

    # what the network does

    def deliver(self, place: int) -> None:
        """A packet arrives; a refusal by the receiver is noted."""
        kind, message = self.packets.pop(place)
        try:
            if kind == "owner":
                self.owner_receives(message)
            elif kind == "aggregator":
                self.aggregator_receives(message)
            else:
                self.bulk_arrives(message)
        except PeerError as error:
            self.errors.append(error)

    def resend(self) -> None:
        """Everybody sends again what may have been lost."""
        for party in self.parties.values():
            self.packets += [("aggregator", m) for m in party.outbox]
            received = party.load().data.received
            self.packets += [("owner", m) for m in self.out[party.name][received:]]

    def run(self, rounds: int = 200) -> None:
        """Let everything arrive in order until nothing happens any more."""
        for _ in range(rounds):
            while self.packets:
                self.deliver(0)
            worked = [self.owner_works(name) for name in self.parties]
            if not (any(worked) or self.aggregator_works() or self.packets):
                return
        raise AssertionError("the round does not come to an end")
