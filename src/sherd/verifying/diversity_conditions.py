"""Re-checking conditions on the sensitive values of groups, by their definitions.

Every group (a class, a bucket, the rows of one q in a bucket) is counted from the released files
and held against what the plan asks for: (α, k)-anonymity, entropy and recursive diversity,
t-closeness with equal or ordered distance, enhanced β-likeness; and, where cells are sets, how
often each element occurs. Numbers of a plan are taken as the fractions that they are written
as. ``worst`` says how far a release goes, and is what the audit measures with.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    Group = Mapping[Hashable, int]

SLACK = 1e-9
"""How far a sum of floats may be off by rounding."""

_MEASURED = ("number", "integer", "date", "datetime")


def grouped_counts(
    places: Iterable[Any], values: Iterable[Any], times: Iterable[int]
) -> dict[Any, Counter[Any]]:
    """How often each value occurs in each place."""
    groups: dict[Any, Counter[Any]] = {}
    for place, value, count in zip(places, values, times, strict=True):
        groups.setdefault(place, Counter())[value] += int(count)
    return groups


def entropy_diversity(group: Group) -> float:
    """The largest l for which a group has entropy l-diversity: e to its entropy."""
    total = sum(group.values())
    return math.exp(-sum(n / total * math.log(n / total) for n in group.values()))


def is_recursive(group: Group, c: Fraction, least: int) -> bool:
    """Whether r_1 < c (r_l + … + r_m) for the counts in falling order."""
    counts = sorted(group.values(), reverse=True)
    return counts[0] < c * sum(counts[least - 1 :])


def equal_distance(group: Group, table: Group) -> Fraction:
    """Half the sum of the differences between two distributions' shares."""
    mine, theirs = sum(group.values()), sum(table.values())
    apart = sum(
        abs(Fraction(group.get(v, 0), mine) - Fraction(n, theirs)) for v, n in table.items()
    )
    return Fraction(apart) / 2


def ordered_distance(group: Group, table: Group, order: Sequence[Hashable]) -> Fraction:
    """The ordered distance: what must be moved, by how many of the table's values in order."""
    mine, theirs = sum(group.values()), sum(table.values())
    present = [value for value in order if table.get(value)]
    ahead = moved = Fraction(0)
    for value in present:
        ahead += Fraction(group.get(value, 0), mine) - Fraction(table[value], theirs)
        moved += abs(ahead)
    return moved / max(len(present) - 1, 1)


def likeness(group: Group, table: Group, beta: float) -> float:
    """The largest share of a group's value, as a part of what enhanced β-likeness allows."""
    mine, theirs = sum(group.values()), sum(table.values())
    return max(
        n / mine / (q * (1 + min(beta, -math.log(q))))
        for v, n in group.items()
        for q in [table[v] / theirs]
    )


def worst(
    name: str, limit: Any, groups: Iterable[Group], table: Group, order: Sequence[Hashable]
) -> tuple[bool, float]:
    """Whether all groups meet a condition, and the number of the group that is farthest off."""
    if name == "recursive":
        c, least = Fraction(str(limit[0])), int(limit[1])
        failing = sum(not is_recursive(group, c, least) for group in groups)
        return failing == 0, float(failing)
    if name == "entropy":
        lowest = min(map(entropy_diversity, groups))
        return lowest >= limit * (1 - SLACK), lowest
    if name == "size":
        smallest = min(sum(group.values()) for group in groups)
        return smallest >= limit, float(smallest)
    measure: dict[str, Callable[[Group], Fraction | float]] = {
        "share": lambda group: Fraction(max(group.values()), sum(group.values())),
        "closeness": lambda group: equal_distance(group, table),
        "ordered_closeness": lambda group: ordered_distance(group, table, order),
        "likeness": lambda group: likeness(group, table, float(limit)),
    }
    largest = max(map(measure[name], groups))
    most = Fraction(1) if name == "likeness" else Fraction(str(limit))
    return largest <= most + Fraction(SLACK), float(largest)


def order_of(attribute: Mapping[str, Any], values: Iterable[Any]) -> list[Any]:
    """The values in the attribute's order: missing first, bins by number, labels as declared."""
    if attribute["type"] in _MEASURED:
        return sorted(values, key=lambda v: (v is not None, v or 0))
    declared = [str(v) for v in attribute.get("values") or ()]
    place = {value: at for at, value in enumerate(declared)}
    return sorted(values, key=lambda v: (v is not None, place.get(str(v), len(place)), str(v)))


_SAID = {
    "share": "the largest share of a value in a group is {:.4f}",
    "size": "the smallest group has {:.0f} records",
    "entropy": "the least diverse group has entropy {:.4f}-diversity",
    "recursive": "{:.0f} groups fail it",
    "closeness": "the group farthest from the table is {:.4f} away",
    "ordered_closeness": "the group farthest from the table is {:.4f} away",
    "likeness": "the largest share is {:.4f} of what is allowed",
}


def condition_checks(
    name: str,
    parts: Callable[[], Iterable[Mapping[Any, Group]]],
    manifest: Mapping[str, Any],
) -> list[Check]:
    """One check for every condition of the plan, for the sensitive attribute ``name``.

    ``parts`` gives the groups, some at a time; they are asked for twice, as groups are compared
    with all of the table.
    """
    wanted: Mapping[str, Any] = manifest["plan"].get("conditions") or {}
    if not wanted:
        return []
    table: Counter[Any] = Counter()
    for groups in parts():
        for group in groups.values():
            table.update(group)
    order = order_of(manifest["schema"]["attributes"][name], list(table))
    outcomes: dict[str, list[tuple[bool, float]]] = {condition: [] for condition in wanted}
    for groups in parts():
        for condition, told in wanted.items():
            made = worst(condition, _limit(told), groups.values(), table, order)
            outcomes[condition].append(made)
    checks = []
    for condition, told in wanted.items():
        limit = _limit(told)
        said = ", ".join(map(str, limit)) if isinstance(limit, list) else limit
        number = _FARTHEST.get(condition, max)(number for _passed, number in outcomes[condition])
        checks.append(
            Check(
                name=f"{name}: {condition} {said}",
                passed=all(passed for passed, _number in outcomes[condition]),
                detail=_SAID[condition].format(number),
            )
        )
    return checks


_FARTHEST: dict[str, Callable[[Iterable[float]], float]] = {
    "recursive": sum,
    "entropy": min,
    "size": min,
}
"""How the numbers of several parts become one; the largest counts otherwise."""


def _limit(told: Any) -> Any:
    return told[0] if isinstance(told, list) and len(told) == 1 else told


def largest_element(
    places: Iterable[Any], cells: Iterable[Any], times: Iterable[int], mark: str
) -> Fraction:
    """The largest share of a group's records that have one element of a set-valued attribute."""
    sizes: Counter[Any] = Counter()
    holding: Counter[tuple[Any, str]] = Counter()
    for place, cell, count in zip(places, cells, times, strict=True):
        sizes[place] += int(count)
        parts = {part.strip() for part in str(cell or "").split(mark)} - {""}
        for part in parts or {""}:
            holding[place, part] += int(count)
    return max(Fraction(n, sizes[place]) for (place, _), n in holding.items())


def element_check(name: str, largest: Fraction, manifest: Mapping[str, Any]) -> Check:
    """That no element of a set-valued attribute occurs in more than 1/l of a group's records."""
    least = manifest["plan"]["l"]
    return Check(
        name=f"{name}: {least}-diversity of elements",
        passed=largest * least <= 1,
        detail=f"the largest share of records with an element is {float(largest):.4f}",
    )
