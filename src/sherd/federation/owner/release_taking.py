"""Rounds that are over: their releases are fetched, looked at and countersigned, or they are ended.

The aggregator's signature says that it published these rows; it does not say that they are the
owners'. An owner knows what it delivered: its columns as they are (vertical), its rows among the
others' (horizontal), or tables of its own. It signs nothing that it did not find.

A round that is not charged is given up at its deadline. One that is charged waits for word of its
end; an aggregator that was restored from a backup may have forgotten the round, or may have sent
that word under a number that we have seen already. So the owner asks, and ends what is over.
"""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sherd.errors import (
    ConnectionFailedError,
    PeerError,
    SherdError,
    StorageError,
    VerificationError,
)
from sherd.federation.owner.foreign_parquet import unfolded
from sherd.federation.owner.owner_journal import FETCHED
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.messages import Delivery, Masked, MessageType, countersigned_text
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState
from sherd.federation.wire.fetching import fetch_release
from sherd.values import from_data

if TYPE_CHECKING:
    import pyarrow as pa

    from sherd.federation.owner.agent import Agent
    from sherd.federation.owner.owner_journal import OwnerJournal
    from sherd.federation.protocol.joint_plan import JointPlan
    from sherd.signing_keys import SigningKey

RECORDS = "data"

NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
ROOM_PATIENCE = 10
"""Seconds until a release that found no room here is fetched again."""


def countersign(journal: OwnerJournal, round_id: str, folder: Path, key: SigningKey) -> str | None:
    """The owner's signature of a fetched release, after it found its part in it.

    None where the plan asks for no signatures; VerificationError where the part is not there.
    """
    from sherd.release.bundle import MANIFEST, digest, read_manifest

    data = journal.round(round_id)
    assert data is not None
    plan = data.plan
    if plan is None or not plan.terms.signed_release:
        return None
    manifest = read_manifest(folder)
    delivery, files = _delivered(journal, round_id)
    entry = manifest.get("joint", {}).get("owners", {}).get(data.owner)
    stated = {
        "artefact": delivery.artefact,
        "ledger_head": delivery.head,
        "versions": delivery.versions,
        "part_signature": delivery.signature,
    }
    if not isinstance(entry, dict) or {name: entry.get(name) for name in stated} != stated:
        raise VerificationError("the release's manifest does not say what was delivered")
    for name, path in files.items():
        _find(plan, data.owner, name.partition(".")[0], path, folder)
    sha256 = digest(folder / MANIFEST)
    return key.sign(countersigned_text(plan_hash=plan.hash, owner=data.owner, manifest=sha256))


def _delivered(journal: OwnerJournal, round_id: str) -> tuple[Delivery | Masked, dict[str, Path]]:
    """What was delivered in a round, as it was announced, and where its tables lie.

    Masked numbers are in no release: of them there is only what the manifest says to look at.
    """
    for sent in reversed(journal.outgoing(round_id)):
        envelope = json.loads(sent.raw)
        if envelope["header"]["type"] == MessageType.MASKED.value:
            return from_data(Masked, envelope["body"]), {}
        if envelope["header"]["type"] == MessageType.DELIVERY.value:
            files = {name: Path(path) for name, path in sent.files.items()}
            return from_data(Delivery, envelope["body"]), files
    raise VerificationError("nothing was delivered in this round")


def _find(plan: JointPlan, owner: str, name: str, path: Path, folder: Path) -> None:
    """Refuse a release that does not hold a delivered table as the plan says that it must."""
    import pyarrow as pa

    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        own = stream.read_all()
    whole = plan.terms.kind is Kind.VERTICAL
    released = folder / f"{RECORDS}.parquet"
    if name != RECORDS or not released.exists():
        released, whole = folder / f"{name}-{owner}.parquet", True
    most = sum(share.rows for share in plan.shares) + own.num_rows
    size = FREE_BYTES + MOST_TIMES * own.nbytes * most // max(1, own.num_rows)
    if not is_part(own, _read_bounded(released, own.schema, most, size), whole=whole):
        raise VerificationError("the release does not hold the rows that were delivered")


FREE_BYTES, MOST_TIMES = 64 << 20, 8
"""What a release's columns may unfold to: so much, and so many times what our own rows take."""


def _read_bounded(path: Path, own: pa.Schema, most: int, size: int) -> pa.Table:
    """Columns of a release that somebody else made: never more rows than the plan allows.

    Texts stay encoded as they come, since a small file can hold a long one very often; and pages
    unfold to no more than ``size`` bytes.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(path, read_dictionary=own.names)
        if file.metadata.num_rows > most:
            raise VerificationError("the release has more rows than the plan allows")
        if not set(own.names) <= set(file.schema_arrow.names):
            raise VerificationError("the release lacks an attribute that was delivered")
        with pa.memory_map(str(path)) as mapped:
            unfolds = unfolded(file, memoryview(mapped.read_buffer()), own.names)
        if unfolds > size:
            raise VerificationError("the release unfolds to more than our rows could take in it")
        return file.read(columns=own.names)
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, VerificationError):
            raise
        raise VerificationError("the release cannot be read") from None


def is_part(own: pa.Table, released: pa.Table, *, whole: bool) -> bool:
    """Whether rows are among those of a release as often as they must be, or are all of them.

    >>> import pyarrow as pa
    >>> some, all = pa.table({"a": [1, 1, 2]}), pa.table({"a": [2, 1, 3, 1]})
    >>> is_part(some, all, whole=False), is_part(some, all, whole=True)
    (True, False)
    >>> is_part(all, some, whole=False)
    False
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if whole and own.num_rows != released.num_rows:
        return False
    pairs = [_comparable(own.column(n), released.column(n)) for n in own.column_names]
    both = [pa.concat_arrays([mine, theirs]) for mine, theirs in pairs]
    count = pa.array([1] * own.num_rows + [-1] * released.num_rows, pa.int64())
    names = [f"c{number}" for number in range(len(both))]
    table = pa.table([*both, count], names=[*names, "count"])
    left = table.group_by(names).aggregate([("count", "sum")]).column("count_sum")
    return not pc.any(pc.greater(left, 0)).as_py()


def _comparable(mine: pa.ChunkedArray, theirs: pa.ChunkedArray) -> tuple[Any, Any]:
    """Two columns as arrays of one plain type: numbers as they are, all others by our codes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    own, other = _encoded(mine), _encoded(theirs)
    try:
        labels = other.dictionary.cast(own.dictionary.type)
    except pa.ArrowException:
        raise VerificationError("the release has an attribute of another type") from None
    known = pc.index_in(labels, value_set=own.dictionary).fill_null(-1).cast(pa.int64())
    return own.indices.cast(pa.int64()), known.take(other.indices)


def _encoded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    import pyarrow as pa

    encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    combined = encoded.unify_dictionaries().combine_chunks()
    if isinstance(combined, pa.ChunkedArray):  # of no rows
        return pa.array([], combined.type)
    return combined


def take_releases(agent: Agent) -> None:
    """Fetch the releases of closed rounds; what is not as announced is left.

    Where our own disk has no room for one, it is asked for again later.
    """
    if agent.now() < agent.fetch_again:
        return
    for round_id in sorted(agent.released):
        data = agent.journal.round(round_id)
        if data is None or data.manifest is None:
            agent.released.discard(round_id)
            continue
        try:
            _take(agent, round_id, data.manifest)
        except ConnectionFailedError as error:
            agent.say("could not fetch the release", error.what)
            raise
        except Exception as error:
            what = error.what if isinstance(error, SherdError) else type(error).__name__
            if isinstance(error, StorageError) or getattr(error, "errno", None) in NO_ROOM:
                agent.say("could not keep the release", what, round_id)
                agent.fetch_again = agent.now() + ROOM_PATIENCE
                continue
            # It is published all the same, and can be had from the aggregator later.
            agent.journal.note(round_id, "could not fetch the release", what)
        agent.released.discard(round_id)


def _take(agent: Agent, round_id: str, manifest: str) -> None:
    """Fetch a release, look for our part in it, and sign it where that is there."""
    folder, whole = agent.home.releases / round_id, agent.home.settings.keeps == "data"
    if not folder.exists():
        fetch_release(agent.client, round_id, folder, manifest_sha256=manifest, data=whole)
    if whole:
        _countersign(agent, round_id, folder)
    agent.journal.note(round_id, FETCHED, manifest)


def _countersign(agent: Agent, round_id: str, folder: Path) -> None:
    try:
        signature = countersign(agent.journal, round_id, folder, agent.key)
        if signature is not None:
            agent.client.countersign(round_id, signature)
            agent.journal.note(round_id, "countersigned the release", "our part is in it")
    except (VerificationError, PeerError) as error:
        agent.journal.note(round_id, "did not countersign the release", error.what)


PATIENCE = 600
"""Seconds after a round's deadline, and between two questions."""

_OVER = {
    None: Reason.RESTORED,
    RoundState.ABORTED.value: Reason.RESTORED,
    RoundState.EXPIRED.value: Reason.LATE,
}
"""What is said of a paid round that the aggregator does not know, or knows as ended."""


def end_overdue(agent: Agent) -> None:
    """Ask after paid rounds that are long overdue, and end those that are over."""
    if agent.now() < agent.ask_again:
        return
    waiting = [
        round_id
        for round_id in agent.journal.overdue(agent.now() - PATIENCE)
        if (data := agent.journal.round(round_id)) is not None and data.artefact is not None
    ]
    if not waiting:
        return
    agent.ask_again = agent.now() + PATIENCE
    states = agent.client.rounds()
    for round_id in waiting:
        reason = _OVER.get(states.get(round_id))
        if reason is not None:
            agent.end_round(round_id, reason)
