"""What is read from the database again and again: the statements, and what they give.

The numbers of messages tell how far an owner and the aggregator have come; they differ after one of
them was restored from a backup. People are also known by the names that a provider gives them.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, delete, func, insert, select

from sherd.errors import UsageError
from sherd.federation.aggregator.storage import database
from sherd.federation.aggregator.storage.tables import (
    CHALLENGES,
    MEMBERS,
    MESSAGES,
    ROUNDS,
    SESSIONS,
)
from sherd.federation.protocol.states import ROUND_ENDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Column, Connection, Select

    from sherd.federation.aggregator.storage.store import Store


@dataclass(frozen=True, kw_only=True)
class Member:
    """Somebody who may use the service."""

    name: str
    role: str
    key: str | None


@dataclass(frozen=True, kw_only=True)
class RoundSummary:
    """A round as lists of rounds show it."""

    id: str
    state: str
    opened: int
    deadline: int


_MOST_LETTERS = 255
"""In the name of a person at a provider."""

# Statements are put together once: doing so takes longer than running them.
_MEMBER = (MEMBERS.c.name, MEMBERS.c.role, MEMBERS.c.key)
ALL_MEMBERS = select(*_MEMBER).order_by(MEMBERS.c.name)
BY_NAME = select(*_MEMBER).where(MEMBERS.c.name == bindparam("name"))
BY_PERSON = select(*_MEMBER).where(MEMBERS.c.person.in_(bindparam("names", expanding=True)))
BY_TOKEN = select(*_MEMBER).where(MEMBERS.c.token_sha256 == bindparam("hashed"))
BY_SESSION = (
    select(*_MEMBER)
    .join(SESSIONS, SESSIONS.c.name == MEMBERS.c.name)
    .where(SESSIONS.c.token_sha256 == bindparam("hashed"), SESSIONS.c.expires >= bindparam("now"))
)
_ROUND = (ROUNDS.c.id, ROUNDS.c.state, ROUNDS.c.opened, ROUNDS.c.deadline)
ALL_ROUNDS = select(*_ROUND).order_by(ROUNDS.c.opened, ROUNDS.c.id)
UNFINISHED = (
    select(*_ROUND)
    .where(ROUNDS.c.state.not_in([state.value for state in ROUND_ENDS]))
    .order_by(ROUNDS.c.opened)
)
DATA = select(ROUNDS.c.data).where(ROUNDS.c.id == bindparam("id"))
LOCKED = DATA.with_for_update()
NEWEST = (
    select(MESSAGES.c.round, func.max(MESSAGES.c.sequence))
    .join(ROUNDS, ROUNDS.c.id == MESSAGES.c.round)
    .where(MESSAGES.c.recipient == bindparam("reader"), ROUNDS.c.deadline >= bindparam("since"))
    .group_by(MESSAGES.c.round)
)
NEWEST_OF_ALL = (
    select(MESSAGES.c.recipient, MESSAGES.c.round, func.max(MESSAGES.c.sequence))
    .join(ROUNDS, ROUNDS.c.id == MESSAGES.c.round)
    .where(ROUNDS.c.deadline >= bindparam("since"))
    .group_by(MESSAGES.c.recipient, MESSAGES.c.round)
)
FRESH = (
    select(MESSAGES.c.raw)
    .where(
        MESSAGES.c.recipient == bindparam("reader"),
        MESSAGES.c.round == bindparam("round"),
        MESSAGES.c.sequence > bindparam("known"),
    )
    .order_by(MESSAGES.c.sequence)
)


def token_hash(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode()).hexdigest()


def member_by_token(db: Connection, token: str, now: int) -> Member | None:
    """Whose token this is: a lasting one, or that of a session that has not expired."""
    given = {"hashed": token_hash(token), "now": now}
    for statement in (BY_SESSION, BY_TOKEN):
        row = db.execute(statement, given).mappings().first()
        if row is not None:
            return Member(**row)
    return None


def fresh_envelopes(
    db: Connection, reader: str, seen: Mapping[str, int], *, since: int, most: int = 100
) -> list[bytes]:
    """Envelopes for somebody that they have not seen, by round and in order."""
    envelopes: list[bytes] = []
    newest = db.execute(NEWEST, {"reader": reader, "since": since})
    for name, last in sorted(tuple(row) for row in newest):
        known = seen.get(name, 0)
        if last > known and len(envelopes) < most:
            which = {"reader": reader, "round": name, "known": known}
            envelopes += [bytes(row[0]) for row in db.execute(FRESH, which)]
    return envelopes


ALL_SEEN = 2**31 - 1
"""What an owner says that it has seen of a round of which it wants to hear nothing any more."""


def _last_of(whose: Column[str]) -> Select[Any]:
    """The number of the last message of or to somebody in each round that has not ended."""
    return (
        select(ROUNDS.c.id, func.max(MESSAGES.c.sequence))
        .join(MESSAGES, MESSAGES.c.round == ROUNDS.c.id)
        .where(
            ROUNDS.c.state.not_in([state.value for state in ROUND_ENDS]),
            whose == bindparam("owner"),
        )
        .group_by(ROUNDS.c.id)
    )


_SENT_TO, _SENT_BY = _last_of(MESSAGES.c.recipient), _last_of(MESSAGES.c.sender)


def _last(store: Store, which: Select[Any], owner: str) -> dict[str, int]:
    with database.glancing(store.engine) as db:
        return {str(row[0]): int(row[1]) for row in db.execute(which, {"owner": owner})}


def received_from(store: Store, owner: str) -> dict[str, int]:
    """The number of an owner's last message in each of its rounds; 0 where none has come."""
    sent = _last(store, _SENT_TO, owner)
    return dict.fromkeys(sent, 0) | _last(store, _SENT_BY, owner)


def forgotten_rounds(store: Store, owner: str, seen: Mapping[str, int]) -> list[str]:
    """The open rounds of which an owner has seen a message that we do not know to have sent."""
    sent = _last(store, _SENT_TO, owner)
    return sorted(name for name in sent if sent[name] < seen.get(name, 0) < ALL_SEEN)


def person_text(issuer: str, name: str) -> str:
    """Somebody as a provider knows them, as it is kept: by ``sub:`` or by ``email:``."""
    kind, _, value = name.partition(":")
    if kind not in ("sub", "email") or not 0 < len(value) <= _MOST_LETTERS:
        raise UsageError(
            "the person's name has the wrong form",
            must="sub:SUBJECT or email:ADDRESS",
            got=repr(name),
        )
    return f"{issuer} {name.lower() if kind == 'email' else name}"


def member_of_person(store: Store, issuer: str, names: tuple[str, ...]) -> Member | None:
    """Who somebody is whom a provider knows by these names; nobody where two are meant."""
    wanted = [person_text(issuer, name) for name in names]
    with database.reading(store.engine) as db:
        rows = db.execute(BY_PERSON, {"names": wanted}).mappings().all()
    return Member(**rows[0]) if len(rows) == 1 else None


def use_once(store: Store, nonce: str, *, now: int, expires: int) -> bool:
    """Whether a number was not used before; it is used up now."""
    hashed = token_hash(nonce)
    with database.writing(store.engine) as db:
        for table in (CHALLENGES, SESSIONS):
            db.execute(delete(table).where(table.c.expires < now))
        known = db.execute(select(CHALLENGES.c.name).where(CHALLENGES.c.nonce == hashed))
        if known.first() is not None:
            return False
        db.execute(insert(CHALLENGES).values(nonce=hashed, name="", expires=expires))
    return True
