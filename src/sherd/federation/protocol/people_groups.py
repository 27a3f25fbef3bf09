"""Owners of blocks: who has the same attributes of other people, and who of the released people.

Owners that offer the same attributes are a group. A person is released who is at an owner of every
group; so each of that person's cells has one owner, if nobody is at two owners of one group.
Whoever is, is left out, and the round ends where there are as many as the plan tells of.

Notation: a pseudonym is 32 bytes; lists of them are sorted, as ``linkage`` has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.federation.protocol.linkage import common_names, overlap

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.tables.schema import Schema

Groups = tuple[tuple[str, ...], ...]


def column_groups(schemas: Mapping[str, Schema]) -> Groups:
    """The owners by the attributes that they offer, in the order of the first of each group."""
    found: dict[frozenset[str], list[str]] = {}
    for owner, schema in schemas.items():
        found.setdefault(frozenset(schema.attributes), []).append(owner)
    return tuple(tuple(members) for members in found.values())


def at_two_owners(groups: Groups, lists: Mapping[str, NDArray[np.bytes_]]) -> int:
    """How many people have a cell with two owners, counted group by group."""
    return sum(overlap([lists[owner] for owner in members]) for members in groups)


def common_people(
    groups: Groups, lists: Mapping[str, NDArray[np.bytes_]]
) -> dict[str, NDArray[np.bytes_]]:
    """For every owner the pseudonyms of its people who are at one owner of every group.

    >>> from sherd.federation.protocol.linkage import listed
    >>> a, b, c = (bytes([n]) * 32 for n in (1, 2, 3))
    >>> lists = {"x": listed(a + b), "y": listed(b + c), "z": listed(a + b)}
    >>> found = common_people((("x", "y"), ("z",)), lists)
    >>> {owner: names.tolist() == [a] for owner, names in found.items()}
    {'x': True, 'y': False, 'z': True}
    """
    in_every = []
    for members in groups:
        names, times = np.unique(
            np.concatenate([lists[owner] for owner in members]), return_counts=True
        )
        in_every.append(names[times == 1])
    common = common_names(in_every)
    return {owner: common_names([own, common]) for owner, own in lists.items()}
