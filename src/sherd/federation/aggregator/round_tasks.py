"""What the aggregator computes for a round: linking, checking deliveries, assembling.

Each may be begun again after a crash and ends in the same: one list of common people, one
release.
"""

from __future__ import annotations

import contextlib
import functools
import shutil
from typing import TYPE_CHECKING, Any

from sherd.errors import OutsideError, PeerError, SherdError, VerificationError
from sherd.federation.aggregator.assembly import assemble, assemble_sums, check
from sherd.federation.aggregator.delivery_check import wrong_delivery
from sherd.federation.aggregator.mapped_bulk import chunks_of, map_file, mapped, scratch_of
from sherd.federation.aggregator.sum_rounds import add_up, outcome
from sherd.federation.protocol.agreement import at_two_owners, column_groups, common_people
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.linkage import (
    POINT,
    check_pseudonyms,
    common_names,
    overlap,
    ranges,
)
from sherd.federation.protocol.messages import CHUNK, table_name
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.round_machine import RoundTask
from sherd.federation.protocol.states import RoundState
from sherd.federation.protocol.summing import sums_rows
from sherd.federation.wire.arrow_stream import read_table
from sherd.federation.wire.chunks import describe
from sherd.federation.wire.failpoints import reach
from sherd.release.signature import write_signature
from sherd.verifying.arrow_files import written_out

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sherd.engines.mapped_columns import MappedColumns
    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.protocol.agreement import Groups
    from sherd.federation.protocol.joint_plan import JointPlan
    from sherd.federation.protocol.knowledge import RoundData
    from sherd.federation.protocol.linkage import Buffer
    from sherd.federation.protocol.messages import Attachment
    from sherd.release.bundle import Release


MOST_HELD = 4 << 20
"""The bytes of a delivery up to which it is checked in memory: a folder for it takes longer."""


def _bulk(aggregator: Aggregator, round_id: str, attachment: Attachment) -> bytes:
    """Bulk that is known to be small."""
    return b"".join(chunks_of(aggregator, round_id, attachment))


def link(aggregator: Aggregator, round_id: str, data: RoundData) -> None:
    """Compare the owners' pseudonyms, and tell everybody what came of it."""
    with scratch_of(aggregator, round_id) as scratch:
        lists = {}
        for owner, attachment in data.pseudonyms.items():
            names = mapped(scratch, chunks_of(aggregator, round_id, attachment))
            try:
                check_pseudonyms(names, attachment.size // POINT)
            except PeerError:
                what = f"the pseudonyms of {owner} are not valid"
                aggregator.abort(round_id, Reason.VERIFICATION, what)
                return
            lists[owner] = names
        twice, count, people = compared(data.agreed, lists, scratch)
        common = {owner: describe(own) for owner, own in people.items()}
        with aggregator.store.working(round_id) as work:
            assert work is not None
            machine = aggregator.machine(work.data)
            if machine.task is not RoundTask.LINK:
                return
            machine.data.heads = work.heads(machine.data.keys)
            machine.data.tries = None
            messages = machine.linked(overlap=twice, count=count, common=common)
            for owner, own in people.items():
                starts = range(0, len(own), CHUNK)
                pieces = (own[start : start + CHUNK] for start in starts)
                for sha256, piece in zip(common[owner].chunks, pieces, strict=True):
                    work.add_bulk({sha256: piece})
            letters = aggregator.keep(work, machine, messages)
            reach("aggregator.linking")
    reach("aggregator.linked")
    aggregator.listener(letters)


def compared(
    plan: JointPlan, lists: Mapping[str, Buffer], scratch: MappedColumns
) -> tuple[int, int, dict[str, Buffer]]:
    """How many people a cell of whom has two owners, how many are released, and who at each owner.

    Lists are read range by range, and the people of each owner written as they are found.
    """
    groups: Groups = ()
    if plan.terms.kind is Kind.HORIZONTAL:
        return sum(overlap(list(piece.values())) for piece in ranges(lists)), 0, {}
    if plan.terms.kind is Kind.BLOCKS:
        groups = column_groups({owner: plan.schema(owner) for owner in plan.owners})
    twice, files = (
        0,
        {owner: scratch.nameless_file() for owner in lists if groups}
        or {"": scratch.nameless_file()},
    )
    for piece in ranges(lists):
        if groups:
            twice += at_two_owners(groups, piece)
            people_here = common_people(groups, piece)
        else:
            people_here = {"": common_names(list(piece.values()))}
        for owner, names in people_here.items():
            files[owner].write(names.tobytes())
    made = {owner: map_file(file) for owner, file in files.items()}
    if not groups:
        return 0, len(made[""]) // POINT, dict.fromkeys(lists, made[""])
    return twice, sum(len(made[owner]) for owner in groups[0]) // POINT, made


def check_deliveries(aggregator: Aggregator, round_id: str, data: RoundData) -> None:
    """Look at the deliveries that arrived; one that does not fit ends the round."""
    good = []
    for owner in aggregator.machine(data).unchecked:
        held = data.deliveries[owner].size <= MOST_HELD
        try:
            with contextlib.nullcontext() if held else scratch_of(aggregator, round_id) as scratch:
                check(data, owner, _tables(aggregator, data, owner, scratch))
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
        letters = aggregator.keep(work, machine, [])
    aggregator.listener(letters)


def sum_answers(aggregator: Aggregator, round_id: str, data: RoundData) -> None:
    """Go on with a round of sums: add up what was answered, ask what comes next."""
    add_up(aggregator, round_id, data, functools.partial(_bulk, aggregator, round_id))


def _tables(
    aggregator: Aggregator, data: RoundData, owner: str, scratch: MappedColumns | None
) -> dict[str, Any]:
    """The tables of an owner's delivery in mapped files, or an error that says whose they are.

    Without ``scratch`` they are in memory.
    """
    most = data.terms.most_bytes
    tables = {}
    for name, attachment in data.deliveries[owner].files.items():
        try:
            pieces = chunks_of(aggregator, data.terms.round, attachment)
            whole = b"".join(pieces) if scratch is None else mapped(scratch, pieces)
            table = read_table(whole, most)
        except PeerError as error:
            raise wrong_delivery(owner, error.what) from None
        most -= written_out(table)
        tables[table_name(name)] = table
    return tables


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
        letters = aggregator.keep(work, machine, machine.assembled(manifest))
    reach("aggregator.released")
    aggregator.listener(letters)


def _published(folder: Path, data: RoundData) -> str | None:
    """The manifest's hash if an earlier run published this very release and then died."""
    from sherd.release.bundle import MANIFEST, digest, read_manifest

    if not folder.exists():
        return None
    manifest: dict[str, Any] = read_manifest(folder)
    if manifest.get("joint", {}).get("plan_hash") != data.agreed.hash:
        raise VerificationError("another release already occupies the round's place")
    return digest(folder / MANIFEST)


def _publish(aggregator: Aggregator, round_id: str, folder: Path, data: RoundData) -> str:
    aggregator.releases.mkdir(parents=True, exist_ok=True)
    for left in aggregator.releases.glob(f".{round_id}.staged-*"):
        shutil.rmtree(left, ignore_errors=True)  # by a run that died before it published
    with scratch_of(aggregator, round_id) as scratch:
        try:
            staged = _release(aggregator, round_id, data, scratch).stage(folder)
        except (VerificationError, PeerError, OutsideError):
            raise
        except SherdError as error:
            raise VerificationError(error.what) from None
    if data.terms.signed_release:
        write_signature(staged.path, aggregator.key)
    reach("aggregator.staged")
    staged.publish()
    reach("aggregator.published")
    return staged.artefact


def _release(
    aggregator: Aggregator, round_id: str, data: RoundData, scratch: MappedColumns
) -> Release:
    if sums_rows(data.terms):
        bulk = functools.partial(_bulk, aggregator, round_id)
        return assemble_sums(data, outcome(data, bulk))
    tables = {owner: _tables(aggregator, data, owner, scratch) for owner in data.deliveries}
    people = {}
    if data.terms.kind is Kind.BLOCKS:
        for owner, one in (data.commons or {}).items():
            people[owner] = mapped(scratch, chunks_of(aggregator, round_id, one))
    return assemble(data, tables, people, scratch=scratch)
