"""What the aggregator computes for a round: linking, checking deliveries, assembling.

Each may be begun again after a crash and ends in the same: one list of common people, one
release.
"""

from __future__ import annotations

import functools
import shutil
from typing import TYPE_CHECKING, Any

from sherd.errors import PeerError, SherdError, VerificationError
from sherd.federation.aggregator.assembly import assemble, assemble_sums, check
from sherd.federation.aggregator.delivery_check import wrong_delivery
from sherd.federation.aggregator.sum_rounds import add_up, outcome
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.linkage import check_pseudonyms, intersection, overlap, points
from sherd.federation.protocol.messages import CHUNK
from sherd.federation.protocol.people_groups import at_two_owners, column_groups, common_people
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.round_machine import RoundTask
from sherd.federation.protocol.states import RoundState
from sherd.federation.protocol.summing import sums_rows
from sherd.federation.wire.arrow_stream import read_table
from sherd.federation.wire.chunks import describe, gather
from sherd.federation.wire.failpoints import reach
from sherd.release.signature import write_signature

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.protocol.joint_plan import JointPlan
    from sherd.federation.protocol.knowledge import RoundData
    from sherd.federation.protocol.messages import Attachment


def _bulk(aggregator: Aggregator, round_id: str, attachment: Attachment) -> bytes:
    def chunk(sha256: str) -> bytes:
        found = aggregator.store.chunk(round_id, sha256)
        if found is None:
            raise VerificationError("a chunk that was received is gone")
        return found

    return gather(attachment, chunk)


def link(aggregator: Aggregator, round_id: str, data: RoundData) -> None:
    """Compare the owners' pseudonyms, and tell everybody what came of it."""
    lists = {}
    assert data.plan is not None
    for owner, attachment in data.pseudonyms.items():
        found = _bulk(aggregator, round_id, attachment)
        try:
            check_pseudonyms(found, attachment.size // 32)
        except PeerError:
            what = f"the pseudonyms of {owner} are not valid"
            aggregator.abort(round_id, Reason.VERIFICATION, what)
            return
        lists[owner] = found
    twice, people = _compared(data.plan, lists)
    told = {owner: describe(own) for owner, own in people.items()}
    bulk = {
        sha256: people[owner][start : start + CHUNK]
        for owner, attachment in told.items()
        for sha256, start in zip(attachment.chunks, range(0, attachment.size, CHUNK), strict=True)
    }
    with aggregator.store.working(round_id) as work:
        assert work is not None
        machine = aggregator.machine(work.data)
        if machine.task is not RoundTask.LINK:
            return
        machine.data.heads = work.heads(machine.data.keys)
        machine.data.tries = None
        released = len(set().union(*map(points, people.values())))
        messages = machine.linked(overlap=twice, count=released, common=told)
        work.add_bulk(bulk)
        heard = aggregator.keep(work, machine, messages)
        reach("aggregator.linking")
    reach("aggregator.linked")
    aggregator.listener(heard)


def _compared(plan: JointPlan, lists: dict[str, bytes]) -> tuple[int, dict[str, bytes]]:
    """How many people a cell of whom has two owners, and whom each owner is told to release."""
    if plan.terms.kind is Kind.HORIZONTAL:
        return overlap(list(lists.values())), {}
    if plan.terms.kind is Kind.VERTICAL:
        return 0, dict.fromkeys(lists, intersection(list(lists.values())))
    groups = column_groups({owner: plan.schema(owner) for owner in plan.owners})
    return at_two_owners(groups, lists), common_people(groups, lists)


def check_deliveries(aggregator: Aggregator, round_id: str, data: RoundData) -> None:
    """Look at the deliveries that arrived; one that does not fit ends the round."""
    good = []
    for owner in aggregator.machine(data).unchecked:
        try:
            check(data, owner, _tables(aggregator, round_id, data, owner))
        except (PeerError, VerificationError) as error:
            aggregator.abort(round_id, Reason.VERIFICATION, error.what)
            return
        good.append(owner)
    with aggregator.store.working(round_id) as work:
        assert work is not None
        machine = aggregator.machine(work.data)
        for owner in good:
            if owner in machine.unchecked:
                machine.passed(owner)
        machine.data.tries = None
        told = aggregator.keep(work, machine, [])
    aggregator.listener(told)


def sum_answers(aggregator: Aggregator, round_id: str, data: RoundData) -> None:
    """Go on with a round of sums: add up what was answered, ask what comes next."""
    add_up(aggregator, round_id, data, functools.partial(_bulk, aggregator, round_id))


def _tables(aggregator: Aggregator, round_id: str, data: RoundData, owner: str) -> dict[str, Any]:
    """The tables of an owner's delivery, or an error that says whose they are."""
    most = data.terms.most_bytes
    found = {}
    for name, attachment in data.deliveries[owner].files.items():
        try:
            table = read_table(_bulk(aggregator, round_id, attachment), most)
        except PeerError as error:
            raise wrong_delivery(owner, error.what) from None
        most -= table.nbytes
        found[name.removesuffix(".arrows")] = table
    return found


def publish(aggregator: Aggregator, round_id: str, data: RoundData) -> None:
    """Assemble the release and publish it, or end the round where that cannot be."""
    folder = aggregator.folder(round_id)
    try:
        manifest = _published(folder, data) or _publish(aggregator, round_id, folder, data)
    except (PeerError, VerificationError) as error:
        aggregator.abort(round_id, Reason.VERIFICATION, error.what)
        return
    with aggregator.store.working(round_id) as work:
        assert work is not None
        machine = aggregator.machine(work.data)
        if machine.state is not RoundState.ASSEMBLING:
            return
        machine.data.tries = None
        told = aggregator.keep(work, machine, machine.assembled(manifest))
    reach("aggregator.released")
    aggregator.listener(told)


def _published(folder: Path, data: RoundData) -> str | None:
    """The manifest's hash if an earlier run published this very release and then died."""
    from sherd.release.bundle import MANIFEST, digest, read_manifest

    if not folder.exists():
        return None
    found: dict[str, Any] = read_manifest(folder)
    assert data.plan is not None
    if found.get("joint", {}).get("plan_hash") != data.plan.hash:
        raise VerificationError("another release is in the round's place")
    return digest(folder / MANIFEST)


def _publish(aggregator: Aggregator, round_id: str, folder: Path, data: RoundData) -> str:
    try:
        if sums_rows(data.terms):
            bulk = functools.partial(_bulk, aggregator, round_id)
            release = assemble_sums(data, outcome(data, bulk))
        else:
            tables = {
                owner: _tables(aggregator, round_id, data, owner) for owner in data.deliveries
            }
            people = {}
            if data.terms.kind is Kind.BLOCKS:
                lists = (data.commons or {}).items()
                people = {owner: _bulk(aggregator, round_id, one) for owner, one in lists}
            release = assemble(data, tables, people)
    except (VerificationError, PeerError):
        raise
    except SherdError as error:
        raise VerificationError(error.what) from None
    aggregator.releases.mkdir(parents=True, exist_ok=True)
    for left in aggregator.releases.glob(f".{round_id}.staged-*"):
        shutil.rmtree(left, ignore_errors=True)  # by a run that died before it published
    staged = release.stage(folder)
    if data.terms.signed_release:
        write_signature(staged.path, aggregator.key)
    reach("aggregator.staged")
    staged.publish()
    reach("aggregator.published")
    return staged.artefact
