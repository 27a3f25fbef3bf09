"""The owner's part in linking people: blind, raise, unblind; from its table to pseudonyms."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sherd.errors import PeerError, TableError, UsageError
from sherd.federation.protocol.joint_plan import Linkage
from sherd.federation.protocol.linkage import Secret, chain, keyed_pseudonyms
from sherd.federation.protocol.messages import Attachment, Batch, Hop
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OWNER_ENDS
from sherd.federation.wire.chunks import check_chunk, describe, gather
from sherd.federation.wire.envelope import GRACE, open_envelope
from sherd.federation.wire.failpoints import reach
from sherd.signing_keys import write_secret
from sherd.tables.files import sync_folder

if TYPE_CHECKING:
    from sherd.federation.owner.owner_home import OwnerHome
    from sherd.federation.owner.owner_journal import OwnerJournal
    from sherd.federation.owner.owner_table import LoadedTable
    from sherd.federation.protocol.owner_machine import Owner
    from sherd.federation.wire.client import Client


CHUNK_TRIES = 3
"""How often a chunk is asked for before the aggregator is believed to mean it."""


@dataclass(frozen=True, kw_only=True)
class Made:
    """Bulk that was made and lies in a file, to be sent."""

    path: Path
    attachment: Attachment
    count: int


def write_bulk(home: OwnerHome, data: bytes, count: int) -> Made:
    """Keep bulk in a file of its own until it is sent."""
    attachment = describe(data)
    path = home.bulk / attachment.sha256
    if not path.exists():
        place = home.bulk / f".{attachment.sha256}.{os.getpid()}"
        place.unlink(missing_ok=True)
        write_secret(place, data)
        place.rename(path)
        sync_folder(home.bulk)
    reach("owner.bulk")
    return Made(path=path, attachment=attachment, count=count)


def load(home: OwnerHome, machine: Owner) -> LoadedTable:
    """The owner's table for a linked round; refuses one that changed since the offer."""
    data = machine.data
    shared = data.agreed.schema(data.owner)
    linked = data.agreed.terms.linkage is not Linkage.NONE
    loaded = home.load(data.round, shared, linked=linked)
    same = data.table in (None, loaded.identity)
    if not same or loaded.rows != data.agreed.share(data.owner).rows:
        home.forget_table()
        raise TableError("the table has changed since it was offered", do="begin a new round")
    return loaded


def fetch(client: Client, round_id: str, attachment: Attachment) -> bytes:
    """Bulk from the aggregator, checked; what comes damaged is asked for again, not for ever."""

    def chunk(sha256: str) -> bytes:
        for left in reversed(range(CHUNK_TRIES)):
            data = client.chunk(round_id, sha256)
            try:
                check_chunk(sha256, data)
            except PeerError:
                if not left:
                    raise
                continue
            return data
        raise AssertionError

    return gather(attachment, chunk)


def blind(home: OwnerHome, machine: Owner) -> Made:
    """Our own batch, blinded."""
    loaded = load(home, machine)
    batch = Secret(home.seed, machine.data.agreed.tag).blind(loaded.identifiers)
    return write_bulk(home, batch, loaded.rows)


def raise_batch(home: OwnerHome, machine: Owner, client: Client) -> Made:
    """The first batch that waits, raised by our key, if the hop before really sent it."""
    hop, plan = machine.data.to_raise[0], machine.data.agreed
    check_proof(machine, hop)
    batch = fetch(client, machine.data.round, hop.attachment)
    return write_bulk(home, Secret(home.seed, plan.tag).raise_batch(batch), hop.count)


def check_proof(machine: Owner, hop: Hop) -> None:
    """Refuse a batch that the hop before did not sign: raising is not for the relay's own use."""
    data = machine.data
    order = chain(data.agreed.owners, hop.origin)
    before = order[hop.hop - 1]
    key = data.agreed.share(before).key
    message = open_envelope(
        hop.proof.encode(),
        key_of=lambda sender: key if sender == before else None,
        recipient=data.aggregator,
        now=data.agreed.terms.deadline - GRACE,  # the hop's age is the relay's business
    )
    body = message.body
    if (
        message.round != data.round
        or message.plan != data.agreed.hash
        or not isinstance(body, Batch)
        or (body.origin, body.hop, body.count) != (hop.origin, hop.hop - 1, hop.count)
        or body.attachment != hop.attachment
    ):
        raise Reason.SIGNATURE.error("a batch is not the one the hop before sent")


def finish(home: OwnerHome, machine: Owner, client: Client) -> Made:
    """The pseudonyms of our people, sorted, to be sent; by row they stay in our folder."""
    data = machine.data
    loaded = load(home, machine)
    if data.agreed.terms.linkage is Linkage.HMAC:
        key = home.shared_key
        if key is None or len(key) < 32:
            raise UsageError(
                "the linkage by HMAC needs the key all owners share",
                must="at least 32 bytes in linkage.key in the owner's folder",
            )
        names = keyed_pseudonyms(key, data.agreed.tag, loaded.identifiers)
    else:
        assert data.returned is not None
        check_proof(machine, data.returned)
        batch = fetch(client, data.round, data.returned.attachment)
        if len(batch) != 32 * loaded.rows:
            raise Reason.MALFORMED.error("our batch came back with a different size")
        names = Secret(home.seed, data.agreed.tag).finish(batch)
    path = _names_file(home, machine)
    path.unlink(missing_ok=True)
    write_secret(path, bytes.fromhex(loaded.identity) + b"".join(names))
    return write_bulk(home, b"".join(sorted(names)), len(names))


def note_bulk(home: OwnerHome, round_id: str) -> None:
    """Note that a round without linkage has bulk, to be thrown away at its end."""
    (home.bulk / f"{round_id}.answers").touch(mode=0o600)


_LISTS = (".pseudonyms", ".answers")
"""How files end that stand for a round with bulk."""


def tidy(home: OwnerHome, journal: OwnerJournal) -> None:
    """Throw away which pseudonym was whose, batches and answers, once their round has ended."""
    if not home.bulk.is_dir():
        return
    for names in [each for each in home.bulk.iterdir() if each.suffix in _LISTS]:
        data = journal.round(names.stem)
        if data is None or data.state not in OWNER_ENDS:
            continue
        for path in map(Path, journal.files_of(data.round)):
            if path.parent == home.bulk:
                path.unlink(missing_ok=True)
        names.unlink(missing_ok=True)


def _names_file(home: OwnerHome, machine: Owner) -> Path:
    return home.bulk / f"{machine.data.round}.pseudonyms"


def pseudonyms(home: OwnerHome, machine: Owner, loaded: LoadedTable) -> bytes:
    """The pseudonyms by row, if the table is still the one they were made of."""
    kept = _names_file(home, machine).read_bytes()
    if kept[:32].hex() != loaded.identity:
        raise TableError(
            "the people in the table have changed since they were linked", do="begin a new round"
        )
    return kept[32:]
