"""The aggregator's storage: rounds under a lock, messages, chunks and who may do what.

One conformance suite runs over this class with SQLite and with PostgreSQL.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from sqlalchemy import delete, func, insert, or_, select
from sqlalchemy.exc import IntegrityError

from sherd.errors import StorageError, UsageError
from sherd.federation.aggregator.storage import database
from sherd.federation.aggregator.storage.audit_log import append
from sherd.federation.aggregator.storage.bulk_files import BulkFiles
from sherd.federation.aggregator.storage.statements import (
    ALL_MEMBERS,
    ALL_ROUNDS,
    BY_NAME,
    DATA,
    LOCKED,
    NEWEST_OF_ALL,
    UNFINISHED,
    Member,
    RoundSummary,
    fresh_envelopes,
    member_by_token,
    token_hash,
)
from sherd.federation.aggregator.storage.tables import (
    ANNOUNCED,
    CHUNKS,
    GRANTS,
    HEADS,
    MEMBERS,
    MESSAGES,
    ROUNDS,
    SEEN,
    SESSIONS,
)
from sherd.federation.aggregator.storage.work import RoundWork, Sent, write_sent
from sherd.federation.protocol.knowledge import RoundData
from sherd.values import canonical_text, from_data

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


OPERATOR = "operator"
"""The person who works at the aggregator's folder, in the audit log."""

_BINDING = re.compile(rb'"type":"(?:proposal|signature|delivery)"')


class Store:
    """One aggregator's database."""

    def __init__(self, address: str) -> None:
        self.engine = database.open_engine(address)
        place = database.sqlite_file(address)
        self.bulk = None if place is None else BulkFiles(place.with_name(f".{place.name}-bulk"))
        """Where large chunks lie; None: in the database."""
        self.actor = OPERATOR
        """Who works at the aggregator's folder through this, for the audit log."""
        # The last round worked on, so that a round of many owners is not read back for every
        # message; used only where the text in the database is still the same.
        self._last: dict[str, tuple[str, RoundData]] = {}

    def migrate(self) -> None:
        """Bring the tables up to date."""
        from sherd.federation.aggregator.storage.upkeep import rebuild

        revision = database.current_revision(self.engine)
        if revision is not None and revision > database.REVISION:
            self.check()
        database.migrate(self.engine)
        rebuild(self)

    def check(self) -> None:
        """Refuse tables of another version."""
        revision, wanted = database.current_revision(self.engine), database.REVISION
        if revision is None:
            raise StorageError(
                "the database is empty",
                must=f"an aggregator's, at revision {wanted}",
                do="correct its address, or restore a backup with `sherd aggregator restore`",
            )
        if revision != wanted:
            later = revision > wanted
            raise StorageError(
                f"the database is of {'a later' if later else 'another'} version",
                must=f"at revision {wanted}",
                got=revision,
                do="install the version of sherd that wrote it, or a later one"
                if later
                else "run `sherd aggregator init --upgrade`",
            )

    def close(self) -> None:
        """Give the connections back."""
        self.engine.dispose()

    # members, challenges and sessions

    def add_member(
        self,
        name: str,
        role: str,
        *,
        now: int,
        key: str | None = None,
        token: str | None = None,
        person: str | None = None,
    ) -> None:
        """Add an owner, an analyst or an operator; a name is given once."""
        row = {
            "name": name,
            "role": role,
            "key": key,
            "token_sha256": None if token is None else token_hash(token),
            "added": now,
            "person": person,
        }
        with database.writing(self.engine) as db:
            taken = db.execute(BY_NAME, {"name": name}).first() is not None
            if not taken:
                db.execute(insert(MEMBERS).values(row))
                append(
                    db, now=now, actor=self.actor, event="member added", subject=name, detail=role
                )
        if taken:
            raise UsageError("the name is already taken", got=repr(name), do="choose another")

    def remove_member(self, name: str, *, now: int = 0) -> bool:
        """Take somebody's access away; whether there was any."""
        with database.writing(self.engine) as db:
            db.execute(delete(SESSIONS).where(SESSIONS.c.name == name))
            db.execute(delete(ANNOUNCED).where(ANNOUNCED.c.owner == name))
            db.execute(delete(SEEN).where(SEEN.c.owner == name))
            removed = bool(db.execute(delete(MEMBERS).where(MEMBERS.c.name == name)).rowcount)
            if removed:
                append(db, now=now, actor=self.actor, event="member removed", subject=name)
        return removed

    def log(self, *, now: int, actor: str, event: str, subject: str, detail: str = "") -> None:
        """Write a line into the audit log."""
        with database.writing(self.engine) as db:
            append(db, now=now, actor=actor, event=event, subject=subject, detail=detail)

    def members(self) -> list[Member]:
        """All members, in the order of their names."""
        with database.reading(self.engine) as db:
            rows = db.execute(ALL_MEMBERS).mappings()
            return [Member(**row) for row in rows]

    def member(self, name: str) -> Member | None:
        """The member with a name; None where there is none."""
        with database.reading(self.engine) as db:
            row = db.execute(BY_NAME, {"name": name}).mappings().first()
        return None if row is None else Member(**row)

    def member_of_token(self, token: str, now: int) -> Member | None:
        """Whose token this is: a lasting one, or that of a session that has not expired."""
        with database.glancing(self.engine) as db:
            return member_by_token(db, token, now)

    def greet(
        self, token: str, *, now: int, seen: Mapping[str, int] | None, since: int
    ) -> tuple[Member | None, list[bytes]]:
        """Whose token this is, and with ``seen`` the envelopes for them that they have not seen."""
        with database.glancing(self.engine) as db:
            member = member_by_token(db, token, now)
            if member is None or seen is None:
                return member, []
            return member, fresh_envelopes(db, member.name, seen, since=since)

    def add_session(self, token: str, name: str, *, expires: int) -> None:
        """Open a session."""
        with database.writing(self.engine) as db:
            row = {"token_sha256": token_hash(token), "name": name, "expires": expires}
            db.execute(insert(SESSIONS).values(row))

    # what owners announce, and when they called

    def announce(self, owner: str, version: int, raw: bytes, *, now: int) -> bool:
        """Keep an announcement; False where a later one, or another of that version, is known."""
        with database.writing(self.engine) as db:
            mine = ANNOUNCED.c.owner == owner
            known = db.execute(select(ANNOUNCED.c.version, ANNOUNCED.c.raw).where(mine)).first()
            if known is not None and known[0] >= version:
                return bool(known[0] == version and bytes(known[1]) == raw)
            db.execute(delete(ANNOUNCED).where(mine))
            row = {"owner": owner, "version": version, "raw": raw, "time": now}
            db.execute(insert(ANNOUNCED).values(row))
        return True

    def announced(self, owner: str) -> bytes | None:
        """What an owner announced last, as it was signed."""
        with database.reading(self.engine) as db:
            row = db.execute(select(ANNOUNCED.c.raw).where(ANNOUNCED.c.owner == owner)).first()
        return None if row is None else bytes(row[0])

    def see(self, called: Mapping[str, int]) -> None:
        """Note when owners have called; somebody who has no access any more leaves no trace."""
        mine = MEMBERS.c.name.in_(list(called))
        with database.writing(self.engine) as db:
            db.execute(delete(SEEN).where(SEEN.c.owner.in_(list(called))))
            names = db.execute(select(MEMBERS.c.name).where(mine)).scalars()
            rows = [{"owner": name, "time": called[name]} for name in names]
            if rows:
                db.execute(insert(SEEN), rows)

    def seen(self) -> dict[str, int]:
        """When each owner called last."""
        with database.reading(self.engine) as db:
            rows = db.execute(select(SEEN.c.owner, SEEN.c.time)).all()
        return {str(owner): int(time) for owner, time in rows}

    def last_sent(self, round: str) -> dict[str, int]:  # noqa: A002
        """When each recipient was sent its last message of a round."""
        statement = (
            select(MESSAGES.c.recipient, func.max(MESSAGES.c.time))
            .where(MESSAGES.c.round == round)
            .group_by(MESSAGES.c.recipient)
        )
        with database.reading(self.engine) as db:
            return {str(who): int(time) for who, time in db.execute(statement)}

    # rounds

    def add_round(
        self, data: RoundData, *, now: int, sent: Iterable[Sent], actor: str | None = None
    ) -> None:
        """Keep a new round with its invitations."""
        taken = False
        with database.writing(self.engine) as db:
            row = {
                "id": data.terms.round,
                "state": data.state.value,
                "data": canonical_text(data),
                "opened": now,
                "deadline": data.terms.deadline,
            }
            try:
                db.execute(insert(ROUNDS).values(row))
                write_sent(db, data.terms.round, data.terms.aggregator, sent, now)
                which, owners = data.terms.round, ", ".join(data.terms.owners)
                append(
                    db, now=now, actor=actor or self.actor, event="round opened", subject=which,
                    detail=owners,
                )  # fmt: skip
            except IntegrityError:
                taken = True
                db.rollback()
        if taken:
            raise UsageError(
                "the round already exists", got=repr(data.terms.round), do="choose another name"
            )

    def rounds(self) -> list[RoundSummary]:
        """Every round, newest last."""
        with database.reading(self.engine) as db:
            return [RoundSummary(**row) for row in db.execute(ALL_ROUNDS).mappings()]

    def unfinished(self) -> list[RoundSummary]:
        """The rounds that have not ended, oldest first."""
        with database.reading(self.engine) as db:
            return [RoundSummary(**row) for row in db.execute(UNFINISHED).mappings()]

    def round(self, id: str) -> RoundData | None:  # noqa: A002
        """What is known of a round; None where there is none."""
        with database.reading(self.engine) as db:
            written = db.execute(DATA, {"id": id}).scalar()
        return None if written is None else from_data(RoundData, json.loads(written))

    @contextlib.contextmanager
    def working(self, id: str) -> Iterator[RoundWork | None]:  # noqa: A002
        """A round under its lock; what the block does is kept whole or not at all."""
        with database.writing(self.engine) as db:
            row = db.execute(LOCKED, {"id": id}).first()
            if row is None:
                yield None
                return
            known, data = self._last.pop(id, ("", None))
            if data is None or known != row[0]:
                data = from_data(RoundData, json.loads(row[0]))
            work = RoundWork(db, data, self.bulk)
            yield work
        if work.purged and self.bulk is not None:
            self.bulk.drop(id)
        written = row[0] if work.unchanged else work.saved
        if written is not None:
            self._last = {id: (written, work.data)}

    # messages and chunks, to be read

    def inbox(
        self, reader: str, seen: Mapping[str, int], *, since: int = 0, most: int = 100
    ) -> list[bytes]:
        """Envelopes for somebody that they have not seen, by round and in order.

        Rounds whose deadline was before ``since`` are left out.
        """
        with database.glancing(self.engine) as db:
            return fresh_envelopes(db, reader, seen, since=since, most=most)

    def newest(self, *, since: int) -> dict[tuple[str, str], int]:
        """The number of the last message to each reader in each round, by reader and round."""
        with database.reading(self.engine) as db:
            rows = db.execute(NEWEST_OF_ALL, {"since": since})
            return {(reader, name): last for reader, name, last in rows}

    def granted_chunk(self, round: str, reader: str, sha256: str) -> bytes | None:  # noqa: A002
        """A chunk that somebody may read; None where there is none or they may not."""
        grant = (GRANTS.c.round == round, GRANTS.c.reader == reader, GRANTS.c.sha256 == sha256)
        with database.reading(self.engine) as db:
            if db.execute(select(GRANTS.c.sha256).where(*grant)).first() is None:
                return None
        return self.chunk(round, sha256)

    def chunk(self, round: str, sha256: str) -> bytes | None:  # noqa: A002
        """A chunk, to anybody who asks."""
        where = (CHUNKS.c.round == round, CHUNKS.c.sha256 == sha256)
        with database.reading(self.engine) as db:
            row = db.execute(select(CHUNKS.c.data).where(*where)).first()
        if row is not None and not row[0] and self.bulk is not None:
            return self.bulk.get(round, sha256)
        return None if row is None else bytes(row[0])

    def sweep(self) -> None:
        """Throw away bulk that a process that died left of rounds that are over."""
        if self.bulk is not None:
            kept = self.bulk.rounds()
            self.bulk.keep_only((each.id for each in self.unfinished()), among=kept)

    def latest(self) -> int:
        """When the last message was written down; 0 where there is none."""
        with database.reading(self.engine) as db:
            return int(db.execute(select(func.max(MESSAGES.c.time))).scalar() or 0)

    def head(self, owner: str) -> str | None:
        """The last ledger head seen from an owner."""
        with database.reading(self.engine) as db:
            return db.execute(select(HEADS.c.head).where(HEADS.c.owner == owner)).scalar()

    def commitments(self, owner: str, *, most: int = 4000) -> list[bytes]:
        """The envelopes by which an owner is bound: the plans it was sent, and what it signed.

        Newest round first.
        """
        theirs = or_(MESSAGES.c.sender == owner, MESSAGES.c.recipient == owner)
        statement = (
            select(MESSAGES.c.raw)
            .join(ROUNDS, ROUNDS.c.id == MESSAGES.c.round)
            .where(theirs)
            .order_by(ROUNDS.c.opened.desc(), MESSAGES.c.round, MESSAGES.c.sequence)
        )
        with database.reading(self.engine) as db:
            raws = (bytes(row[0]) for row in db.execute(statement))
            return list(itertools.islice(filter(_BINDING.search, raws), most))

    def counts(self) -> dict[str, int]:
        """How many rounds are in each state."""
        return Counter(each.state for each in self.rounds())
