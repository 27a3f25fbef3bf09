"""People whom a provider knows, and numbers that are used once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import delete, insert, select

from sherd.errors import UsageError
from sherd.federation.aggregator.storage import database
from sherd.federation.aggregator.storage.statements import BY_PERSON, Member, token_hash
from sherd.federation.aggregator.storage.tables import CHALLENGES

if TYPE_CHECKING:
    from sherd.federation.aggregator.storage.store import Store

MOST_LETTERS = 255


def person_text(issuer: str, name: str) -> str:
    """Somebody as a provider knows them, as it is kept: by ``sub:`` or by ``email:``."""
    kind, _, value = name.partition(":")
    if kind not in ("sub", "email") or not 0 < len(value) <= MOST_LETTERS:
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
        db.execute(delete(CHALLENGES).where(CHALLENGES.c.expires < now))
        known = db.execute(select(CHALLENGES.c.name).where(CHALLENGES.c.nonce == hashed))
        if known.first() is not None:
            return False
        db.execute(insert(CHALLENGES).values(nonce=hashed, name="", expires=expires))
    return True
