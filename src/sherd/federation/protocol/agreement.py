"""Whether the owners' offers fit together, and if not, every difference by name.

Step 3 of the paper's protocols: horizontal needs A_1 = … = A_m, vertical needs disjoint
attributes. Attributes are compared with their types, domains, values and order, since masks
of different domains or orders cannot be put into one column. (The paper writes the vertical
condition as an empty intersection of all m sets, which two owners of three could still
violate; what is meant, and checked here, is that no attribute is at two owners.)

Blocks do both at once: owners of the same attributes are a group, which has different people; two
groups have no attribute in common. Whether two owners of a group have a person in common, so that
a cell would have two owners, only linking can tell. A person is released who is at an owner of
every group; so each of that person's cells has one owner, if nobody is at two owners of one group.
People who are at two are left out, and the round ends where there are as many as the plan names.

Notation: a pseudonym is 32 bytes; lists of them are sorted, as ``linkage`` has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.federation.protocol.joint_plan import Kind, Linkage, Offer, Terms
from sherd.federation.protocol.linkage import common_names, overlap
from sherd.federation.protocol.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sherd.tables.schema import Attribute, Schema


def disagreements(terms: Terms, offers: Mapping[str, Offer]) -> tuple[Reason, list[str]] | None:
    """Why no plan can be made of these offers; None where they agree.

    The texts speak of attributes and their metadata, which the offers hold already.
    """
    schemas = {owner: offer.parsed() for owner, offer in offers.items()}
    if terms.kind is Kind.HORIZONTAL:
        listed = horizontal(schemas)
        if listed:
            return Reason.DIFFERENT_ATTRIBUTES, listed
    elif terms.kind is Kind.BLOCKS:
        differences = in_blocks(schemas)
        if differences is not None:
            return differences
    else:
        listed = vertical(schemas)
        if listed:
            return Reason.OVERLAPPING_ATTRIBUTES, listed
    if terms.linkage is not Linkage.NONE:
        without = [owner for owner, offer in offers.items() if not offer.key]
        if without:
            return Reason.NO_LINKAGE_KEY, [f"{owner} has no linkage key" for owner in without]
    least = terms.least_people
    few = [owner for owner, offer in offers.items() if offer.rows < least]
    if few:
        return Reason.TOO_FEW_ROWS, [
            f"{owner} has fewer than the {least} rows that one cluster takes" for owner in few
        ]
    return None


def horizontal(schemas: Mapping[str, Schema]) -> list[str]:
    """Every difference between the first owner's attributes and another's."""
    (first, reference), *others = schemas.items()
    differences: list[str] = []
    for owner, schema in others:
        if schema is reference:  # of the same text
            continue
        here, there = tuple(reference.attributes), tuple(schema.attributes)
        differences += [
            f"{owner} lacks the attribute '{n}' of {first}" for n in here if n not in there
        ]
        differences += [
            f"{first} lacks the attribute '{n}' of {owner}" for n in there if n not in here
        ]
        shared = [name for name in here if name in there]
        for name in shared:
            differences += _attribute(first, reference[name], owner, schema[name])
        for what in ("missing", "outside", "missing_values"):
            a, b = getattr(reference, what), getattr(schema, what)
            if a != b:
                differences.append(f"`{what}` is {_shown(a)} at {first} and {_shown(b)} at {owner}")
    return differences


def _attribute(first: str, a: Attribute, other: str, b: Attribute) -> list[str]:
    differences = []
    here, there = a.as_data(), b.as_data()
    for key in sorted({*here, *there}):
        one, two = here.get(key), there.get(key)
        if one == two:
            continue
        if key == "values" and one is not None and two is not None:
            differences.append(_values(a.name, first, one, other, two))
        elif key == "taxonomy":
            differences.append(f"'{a.name}': the taxonomies of {first} and {other} differ")
        else:
            differences.append(
                f"'{a.name}': {key} is {_shown(one)} at {first} and {_shown(two)} at {other}"
            )
    return differences


def _values(name: str, first: str, one: list[str], other: str, two: list[str]) -> str:
    if sorted(one) == sorted(two):
        return f"'{name}': {first} and {other} list the same values in another order"
    here, there = set(one), set(two)
    missing = [value for value in one if value not in there]
    extra = [value for value in two if value not in here]
    parts = []
    if missing:
        parts.append(f"{other} lacks {_listed(missing)}")
    if extra:
        parts.append(f"{first} lacks {_listed(extra)}")
    return f"'{name}': of the values, " + " and ".join(parts)


def _listed(values: list[str], most: int = 5) -> str:
    shown = ", ".join(repr(value) for value in values[:most])
    return shown if len(values) <= most else f"{shown} and {len(values) - most} more"


def _shown(value: Any) -> str:
    return "not given" if value is None or value == () else str(value)


def vertical(schemas: Mapping[str, Schema]) -> list[str]:
    """Every attribute that two owners offer."""
    where: dict[str, list[str]] = {}
    for owner, schema in schemas.items():
        for name in schema.attributes:
            where.setdefault(name, []).append(owner)
    return [
        f"the attribute '{name}' is offered by {' and '.join(owners)}"
        for name, owners in where.items()
        if len(owners) > 1
    ]


def in_blocks(schemas: Mapping[str, Schema]) -> tuple[Reason, list[str]] | None:
    """Every difference inside a group of owners, and every attribute that two groups offer."""
    groups = column_groups(schemas)
    between = vertical({members[0]: schemas[members[0]] for members in groups})
    if between:
        return Reason.OVERLAPPING_ATTRIBUTES, between
    if len(groups) < 2:
        return Reason.PLAN_UNSOUND, ["all owners offer the same attributes: that is horizontal"]
    inside = [
        difference
        for members in groups
        for difference in horizontal({owner: schemas[owner] for owner in members})
    ]
    return (Reason.DIFFERENT_ATTRIBUTES, inside) if inside else None


Groups = tuple[tuple[str, ...], ...]


def column_groups(schemas: Mapping[str, Schema]) -> Groups:
    """The owners by the attributes that they offer, in the order of the first of each group."""
    groups: dict[frozenset[str], list[str]] = {}
    for owner, schema in schemas.items():
        groups.setdefault(frozenset(schema.attributes), []).append(owner)
    return tuple(tuple(members) for members in groups.values())


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
    >>> people = common_people((("x", "y"), ("z",)), lists)
    >>> {owner: names.tolist() == [a] for owner, names in people.items()}
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
