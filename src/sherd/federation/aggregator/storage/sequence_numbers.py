"""Comparing how far an owner and the aggregator have come, by the numbers of their messages.

They differ after one of them was restored from a backup.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sqlalchemy import bindparam, func, select

from sherd.federation.aggregator.storage import database
from sherd.federation.aggregator.storage.tables import MESSAGES, ROUNDS
from sherd.federation.protocol.states import ROUND_ENDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlalchemy import Column, Select

    from sherd.federation.aggregator.storage.store import Store

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


# Put together once: doing so takes longer than running them.
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
