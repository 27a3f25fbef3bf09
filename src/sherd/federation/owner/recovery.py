"""Backing an owner's folder up, and leading a restored one back.

A backup's ledger lacks what was spent after it was made. The aggregator kept the envelopes by
which the owner is bound: the plans that it proposed, and the owner's own signatures of them.
A plan that the owner signed may have been carried out, whether or not a delivery arrived, so
its share of epsilon is charged. The aggregator cannot invent a charge, since only envelopes
that carry the owner's own signature count; it can hold some back, which the owner's witness
file shows.

In a backup the journal is copied before the ledger, and the outbox after both: so whatever the
copied journal says was charged is charged in the copied ledger, and whatever is charged there has
its artefact. An agent may go on meanwhile. What it spends after the copy is made up for by `sherd
owner recover`, without which a restored folder does not run.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.budget.amount import Amount
from sherd.errors import SherdError
from sherd.federation.owner import outbox
from sherd.federation.owner.owner_home import OwnerHome
from sherd.federation.owner.owner_journal import Outgoing
from sherd.federation.protocol.messages import Delivery, Message, Proposal, Signature
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState
from sherd.federation.wire.backup_archive import (
    copy_sqlite,
    folder_files,
    read_backup,
    write_backup,
)
from sherd.federation.wire.envelope import open_envelope, seal
from sherd.signing_keys import verify_plan
from sherd.values import digest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sherd.budget.ledger import Ledger
    from sherd.federation.owner.owner_journal import OwnerJournal
    from sherd.federation.protocol.joint_plan import JointPlan
    from sherd.federation.wire.client import Client


ALL_SEEN = 2**31 - 1
"""The number of the last message of a round that we do not want to hear of any more."""


@dataclass(frozen=True, kw_only=True)
class Recovered:
    """A round that was charged because it may have been carried out."""

    round: str
    epsilon: str
    delivered: bool


@dataclass(kw_only=True)
class _Bound:
    plan: JointPlan
    signed: bool = False
    delivery: Delivery | None = None


def recover(
    home: OwnerHome, client: Client, ledger: Ledger, journal: OwnerJournal
) -> list[Recovered]:
    """Charge what a restored ledger lacks, end those rounds, and accept the ledger as it is.

    That the owner takes no further part in a round is written into the journal as a message, which
    the agent sends first of all: the others need not wait for the deadline.
    """
    client.forget_session()  # a fresh one tells how many of our messages the aggregator has
    head, raws = client.commitments()
    received = dict(client.received)
    done = []
    for round_id, bound in _bound(home, raws).items():
        if bound.signed and not _is_charged(home, ledger, journal, round_id):
            recovered = _charge(home, ledger, round_id, bound)
            done += [] if recovered is None else [recovered]
            _end(home, journal, round_id, bound, received.get(round_id))
    witness = outbox.read_witness(home)
    for each in (head, witness):
        if each is not None and not ledger.holds(each) and not home.is_superseded(each):
            home.supersede(each)
    outbox.write_witness(home, ledger.head()[1])
    home.mark_recovered()
    journal.note("", "recovered", f"{len(done)} rounds charged that the ledger did not hold")
    return done


def _bound(home: OwnerHome, raws: list[bytes]) -> dict[str, _Bound]:
    """The plans that were proposed to us, with what we ourselves signed of each."""
    name, own, enrolled = home.settings.name, home.key.public, home.enrolled
    keys = {name: own, enrolled["aggregator"]: enrolled["key"]}
    bounds: dict[str, _Bound] = {}
    ours: list[Message] = []
    for raw in raws:
        try:
            recipient = name if b'"recipient":"' + name.encode() in raw else enrolled["aggregator"]
            message = open_envelope(raw, key_of=keys.get, recipient=recipient, now=0)
        except SherdError:
            continue  # nothing that binds us
        if isinstance(message.body, Proposal) and message.sender == enrolled["aggregator"]:
            bounds[message.round] = _Bound(plan=message.body.plan)
        elif message.sender == name:
            ours.append(message)
    for message in ours:
        bound = bounds.get(message.round)
        if bound is None or message.plan != bound.plan.hash:
            continue
        if isinstance(message.body, Signature):
            bound.signed = verify_plan(own, bound.plan.hash, message.body.signature)
        elif isinstance(message.body, Delivery):
            bound.delivery = message.body
    return bounds


def _is_charged(home: OwnerHome, ledger: Ledger, journal: OwnerJournal, round_id: str) -> bool:
    known = journal.round(round_id)
    if known is None or known.plan is None:
        return False
    machine = home.machine(round_id, known)
    return ledger.charge_of(outbox.occasion_hash(machine)) is not None or (
        ledger.charge_of(_recovery_hash(known.plan, home)) is not None
    )


def _recovery_hash(plan: JointPlan, home: OwnerHome) -> str:
    return digest(["sherd-recovered-1", plan.hash, home.settings.name])


def _charge(home: OwnerHome, ledger: Ledger, round_id: str, bound: _Bound) -> Recovered | None:
    """Charge a plan that we signed; nothing where it is charged already or spends nothing."""
    share = bound.plan.share(home.settings.name)
    occasion = _recovery_hash(bound.plan, home)
    if share.epsilon is None or ledger.charge_of(occasion) is not None:
        return None
    delivered = bound.delivery is not None
    how = "delivered" if delivered else "may have been delivered"
    with ledger.reserving(
        population=home.settings.population,
        amount=Amount(share.epsilon),
        plan_hash=occasion,
        schema_hash=share.schema_hash,
        method=bound.plan.terms.method,
        note=f"recovered: round {round_id}, {how}",
    ) as reservation:
        artefact = bound.plan.hash if bound.delivery is None else bound.delivery.artefact
        ledger.charge(reservation, artefact_sha256=artefact, once=True)
    return Recovered(round=round_id, epsilon=share.epsilon, delivered=delivered)


def _end(
    home: OwnerHome, journal: OwnerJournal, round_id: str, bound: _Bound, received: int | None
) -> None:
    """Take no further part in a round that was charged without an artefact, and say so.

    ``received`` is the number of our last message that the aggregator has; None where the round
    is over for it.
    """
    machine = home.machine(round_id, journal.round(round_id))
    data = machine.data
    if machine.ended:
        return
    data.terms, data.plan, data.received = bound.plan.terms, bound.plan, ALL_SEEN
    data.state, data.reason = OwnerState.ABORTED, Reason.ROLLED_BACK
    outgoing: tuple[Outgoing, ...] = ()
    earlier = journal.outgoing(round_id)
    newest = max((each.sequence for each in earlier), default=0)
    if received is not None and bound.delivery is None and newest <= received:
        for each in earlier:
            journal.acknowledge(each)  # it has them, whatever the backup knows
        data.sent = received
        message = machine.leave(Reason.ROLLED_BACK)
        raw = seal(message, home.key, expires=bound.plan.terms.deadline)
        outgoing = (Outgoing(round=round_id, sequence=message.sequence, raw=raw, files={}),)
    note = "recovered", "charged; this folder takes no further part"
    journal.store(data, outgoing=outgoing, note=note)


KIND = "owner"
_PASSING = ("lock", "attempt.json", "bulk", "releases", "restored")
"""What a restored folder does not need: releases can be fetched again."""


def back_up_owner(home: OwnerHome, target: Path) -> Path:
    """Write a backup of an owner's folder while its agent may be running."""
    name = home.settings.name
    with tempfile.TemporaryDirectory(dir=home.folder, prefix=".backup-") as copies:
        return write_backup(target, kind=KIND, name=name, files=_files(home, Path(copies)))


def _files(home: OwnerHome, copies: Path) -> Iterator[tuple[str, Path]]:
    databases = [path for path in (home.journal, home.ledger) if path.exists()]
    for path in databases:
        copy_sqlite(path, copies / path.name)
        yield path.name, copies / path.name
    beside = {f"{path.name}{end}" for path in databases for end in ("", "-wal", "-shm")}
    for place, path in folder_files(home.folder, leave_out={*beside, *_PASSING, copies.name}):
        yield place, path


def restore_owner(source: Path, folder: Path) -> OwnerHome:
    """Put an owner's backup into a new folder, which must be led back before it runs."""
    read_backup(source, folder, kind=KIND)
    home = OwnerHome(folder)
    home.mark_restored()
    return home
