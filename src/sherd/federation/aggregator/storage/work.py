"""One round inside one transaction, under its lock."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from sqlalchemy import bindparam, delete, insert, select, update

from sherd.federation.aggregator.storage.audit_log import append
from sherd.federation.aggregator.storage.tables import (
    CHUNKS,
    GRANTS,
    HEADS,
    MESSAGES,
    ROUNDS,
    WANTED,
)
from sherd.values import canonical_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from sqlalchemy import ColumnElement, Connection, Table

    from sherd.federation.aggregator.storage.bulk_files import BulkFiles
    from sherd.federation.protocol.knowledge import RoundData


@dataclass(frozen=True, kw_only=True)
class Sent:
    """An envelope to be sent and the chunks its reader may then fetch."""

    recipient: str
    sequence: int
    raw: bytes
    chunks: tuple[str, ...] = ()


def write_sent(
    db: Connection,
    round: str,  # noqa: A002 - the column's name
    sender: str,
    sent: Iterable[Sent],
    now: int,
) -> None:
    """Write envelopes that are sent, and who may read what they announce."""
    rows, grants = [], []
    for each in sent:
        rows.append(
            {
                "round": round,
                "sender": sender,
                "recipient": each.recipient,
                "sequence": each.sequence,
                "sha256": hashlib.sha256(each.raw).hexdigest(),
                "raw": each.raw,
                "time": now,
            }
        )
        for sha256 in dict.fromkeys(each.chunks):
            grant = {"round": round, "reader": each.recipient, "sha256": sha256}
            held = [getattr(GRANTS.c, name) == value for name, value in grant.items()]
            if grant not in grants and (
                db.execute(select(GRANTS.c.sha256).where(*held)).first() is None
            ):
                grants.append(grant)
    if rows:
        db.execute(insert(MESSAGES), rows)
    if grants:
        db.execute(insert(GRANTS), grants)


def _named(table: Table, *names: str) -> list[ColumnElement[bool]]:
    return [table.c[name] == bindparam(name) for name in names]


# Statements are put together once: doing so takes longer than running them.
_SAVE = (
    update(ROUNDS)
    .where(ROUNDS.c.id == bindparam("which"))
    .values(state=bindparam("state"), data=bindparam("data"))
)
_KNOWN = select(MESSAGES.c.sha256).where(
    *_named(MESSAGES, "round", "sender", "recipient", "sequence")
)
_WANTED_BY = (
    select(WANTED.c.sha256)
    .where(*_named(WANTED, "round", "sender", "sequence"))
    .order_by(WANTED.c.sha256)
)
_WANTING = select(WANTED.c.sender, WANTED.c.sequence).where(*_named(WANTED, "round", "sha256"))
_ADD_MESSAGE, _ADD_WANTED, _ADD_CHUNK = insert(MESSAGES), insert(WANTED), insert(CHUNKS)
_SET_HEAD = (
    update(HEADS)
    .where(HEADS.c.owner == bindparam("which"))
    .values(head=bindparam("head"), time=bindparam("time"))
)
_ADD_HEAD = insert(HEADS)
_NO_LONGER_WANTED = delete(WANTED).where(*_named(WANTED, "round", "sha256"))
_HAS_CHUNK = select(CHUNKS.c.sha256).where(*_named(CHUNKS, "round", "sha256"))


class RoundWork:
    """One round inside one transaction, under its lock."""

    def __init__(self, db: Connection, data: RoundData, bulk: BulkFiles | None = None) -> None:
        self._db = db
        self._bulk = bulk
        self.purged = False
        """Whether the round's bulk is to go once this is kept."""
        self.data = data
        self._before = data.state
        self._id = data.terms.round
        self.saved: str | None = None
        self.unchanged = False
        """Set where the round's data was not touched: it need not be read back."""

    def save(self, sent: Iterable[Sent], *, now: int) -> None:
        """Keep what the round knows now, and what it sends."""
        self.saved = canonical_text(self.data)
        row = {"which": self._id, "state": self.data.state.value, "data": self.saved}
        self._db.execute(_SAVE, row)
        write_sent(self._db, self._id, self.data.terms.aggregator, sent, now)
        if self.data.state is not self._before:
            self._before = self.data.state
            ended = self.data.reason.value if self.data.reason else self.data.manifest or ""
            self.log(f"round {self.data.state.value}", ended, now=now)

    def log(self, event: str, detail: str = "", *, now: int, actor: str | None = None) -> None:
        """Write a line about this round into the audit log."""
        append(
            self._db,
            now=now,
            actor=actor or self.data.terms.aggregator,
            event=event,
            subject=self._id,
            detail=detail,
        )

    def known_message(self, sender: str, sequence: int) -> str | None:
        """The hash of the message of that number; None where it has not come."""
        where = {
            "round": self._id,
            "sender": sender,
            "recipient": self.data.terms.aggregator,
            "sequence": sequence,
        }
        row = self._db.execute(_KNOWN, where).first()
        return None if row is None else str(row[0])

    def add_message(
        self,
        sender: str,
        sequence: int,
        raw: bytes,
        chunks: Iterable[str],
        *,
        now: int,
        given: Mapping[str, bytes | memoryview] = MappingProxyType({}),
    ) -> list[tuple[str, int]]:
        """Keep a message that was accepted, and note which chunks it announces.

        Chunks that came with it, in ``given``, are kept at once; the earlier messages that
        they completed are returned.
        """
        row = {
            "round": self._id,
            "sender": sender,
            "recipient": self.data.terms.aggregator,
            "sequence": sequence,
            "sha256": hashlib.sha256(raw).hexdigest(),
            "raw": raw,
            "time": now,
        }
        self._db.execute(_ADD_MESSAGE, row)
        completed, wanted = [], []
        for sha256 in dict.fromkeys(chunks):
            if self._has_chunk(sha256):
                continue
            if sha256 in given:
                completed += self._arrived(sha256, given[sha256])
            else:
                row = {"round": self._id, "sender": sender, "sequence": sequence}
                wanted.append({**row, "sha256": sha256})
        if wanted:
            self._db.execute(_ADD_WANTED, wanted)
        return completed

    def wanted(self, sender: str, sequence: int) -> list[str]:
        """The chunks of a message that have not come."""
        where = {"round": self._id, "sender": sender, "sequence": sequence}
        return [row[0] for row in self._db.execute(_WANTED_BY, where)]

    def _has_chunk(self, sha256: str) -> bool:
        where = {"round": self._id, "sha256": sha256}
        return self._db.execute(_HAS_CHUNK, where).first() is not None

    def _announced(self, sender: str, sha256: str) -> bool:
        mine = (MESSAGES.c.round == self._id, MESSAGES.c.sender == sender)
        raws = self._db.execute(select(MESSAGES.c.raw).where(*mine)).scalars()
        return any(f'"{sha256}"'.encode() in bytes(raw) for raw in raws)

    def put_chunk(
        self, sender: str, sha256: str, data: bytes | memoryview
    ) -> list[tuple[str, int]] | None:
        """Keep a chunk that its sender announced; the messages it completed, by sender and number.

        None where that sender did not announce it.
        """
        rows = self._wanting(sha256)
        if sender not in {row[0] for row in rows}:
            # It may have come before, even in a round that ended meanwhile.
            return [] if self._announced(sender, sha256) else None
        return self._arrived(sha256, data)

    def _wanting(self, sha256: str) -> list[tuple[str, int]]:
        rows = self._db.execute(_WANTING, {"round": self._id, "sha256": sha256})
        return [(row[0], row[1]) for row in rows]

    def _arrived(self, sha256: str, data: bytes | memoryview) -> list[tuple[str, int]]:
        """Keep a chunk; the messages that lacked nothing else."""
        waiting = self._wanting(sha256)
        self._keep_chunk(sha256, data)
        if waiting:
            self._db.execute(_NO_LONGER_WANTED, {"round": self._id, "sha256": sha256})
        return [(who, number) for who, number in waiting if not self.wanted(who, number)]

    def add_bulk(self, chunks: Mapping[str, bytes]) -> None:
        """Keep chunks of our own making."""
        for sha256, data in chunks.items():
            if not self._has_chunk(sha256):
                self._keep_chunk(sha256, data)

    def _keep_chunk(self, sha256: str, data: bytes | memoryview) -> None:
        """Keep a chunk in the database, or beside it, which then has an empty one."""
        if self._bulk is not None and self._bulk.takes(data):
            self._bulk.put(self._id, sha256, data)
            data = b""
        self._db.execute(_ADD_CHUNK, {"round": self._id, "sha256": sha256, "data": data})

    def heads(self, owners: Iterable[str]) -> dict[str, str]:
        """The last ledger heads seen from owners."""
        statement = select(HEADS.c.owner, HEADS.c.head).where(HEADS.c.owner.in_(list(owners)))
        return {row[0]: row[1] for row in self._db.execute(statement)}

    def set_head(self, owner: str, head: str, *, now: int) -> None:
        """Note a ledger head."""
        row = {"head": head, "time": now}
        if not self._db.execute(_SET_HEAD, {"which": owner, **row}).rowcount:
            self._db.execute(_ADD_HEAD, {"owner": owner, **row})

    def purge(self) -> None:
        """Throw the round's bulk away."""
        self.purged = True
        for table in (WANTED, CHUNKS, GRANTS):
            self._db.execute(delete(table).where(table.c.round == self._id))
