"""What owners announced of their policies: taken, kept, and held against a new round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.errors import PeerError, PolicyError
from sherd.federation.protocol.announced_policy import announced_objections
from sherd.federation.protocol.reasons import Reason
from sherd.federation.wire.envelope import read_announcement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sherd.federation.aggregator.round_work import Aggregator
    from sherd.federation.aggregator.storage import Member
    from sherd.federation.protocol.announced_policy import AnnouncedPolicy
    from sherd.federation.protocol.joint_plan import Terms


def take_announcement(aggregator: Aggregator, member: Member, raw: bytes) -> None:
    """Keep what an owner announces; an earlier announcement does not come back."""
    policy = read_announcement(
        raw, owner=member.name, key=member.key or "", aggregator=aggregator.name
    )
    if not aggregator.store.announce(member.name, policy.version, raw, now=aggregator.now()):
        raise Reason.STALE.error()


def announced_policies(aggregator: Aggregator, owners: Iterable[str]) -> dict[str, AnnouncedPolicy]:
    """What these owners have announced, by owner; one that announced nothing is left out."""
    policies = {}
    for name in owners:
        member, raw = aggregator.store.member(name), aggregator.store.announced(name)
        if member is None or raw is None:
            continue
        try:
            policies[name] = read_announcement(
                raw, owner=name, key=member.key or "", aggregator=aggregator.name
            )
        except PeerError:
            continue  # made with a key the owner had before
    return policies


def check_announced(aggregator: Aggregator, terms: Terms) -> None:
    """Refuse a round that the announced policy of one of its owners forbids."""
    objections = announced_objections(terms, announced_policies(aggregator, terms.owners))
    if objections:
        every = [f"{owner} {words}" for owner, lines in objections.items() for words in lines]
        more = f", and {len(every) - 5} more" if len(every) > 5 else ""
        raise PolicyError(
            "an owner's announced policy forbids the round: " + "; ".join(every[:5]) + more,
            do="ask for what every owner allows, or leave the owner out",
        )
