"""Owners of blocks: who has the same attributes of other people, and who of the released people.

Owners that offer the same attributes are a group. A person is released who is at an owner of every
group; so each of that person's cells has one owner, if nobody is at two owners of one group.
Whoever is, is left out, and the round ends where there are as many as the plan tells of.

Notation: a pseudonym is 32 bytes; lists of them are sorted, as ``linkage`` has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sherd.federation.protocol.linkage import overlap, points

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sherd.tables.schema import Schema

Groups = tuple[tuple[str, ...], ...]


def column_groups(schemas: Mapping[str, Schema]) -> Groups:
    """The owners by the attributes that they offer, in the order of the first of each group."""
    found: dict[frozenset[str], list[str]] = {}
    for owner, schema in schemas.items():
        found.setdefault(frozenset(schema.attributes), []).append(owner)
    return tuple(tuple(members) for members in found.values())


def at_two_owners(groups: Groups, lists: Mapping[str, bytes]) -> int:
    """How many people have a cell with two owners, counted group by group."""
    return sum(overlap([lists[owner] for owner in members]) for members in groups)


def common_people(groups: Groups, lists: Mapping[str, bytes]) -> dict[str, bytes]:
    """For every owner the pseudonyms of its people who are at one owner of every group.

    >>> a, b, c = (bytes([n]) * 32 for n in (1, 2, 3))
    >>> found = common_people((("x", "y"), ("z",)), {"x": a + b, "y": b + c, "z": a + b})
    >>> found["x"] == found["z"] == a, found["y"] == b""
    (True, True)
    """
    people = {owner: set(points(batch)) for owner, batch in lists.items()}
    common: set[bytes] | None = None
    for members in groups:
        once: set[bytes] = set()
        twice: set[bytes] = set()
        for owner in members:
            twice |= once & people[owner]
            once |= people[owner]
        common = once - twice if common is None else common & (once - twice)
    return {owner: b"".join(sorted(own & (common or set()))) for owner, own in people.items()}
