"""Public rules: combinations of values that cannot occur, declared by the owner.

A rule is a mapping from attributes to values, "these together never occur":
``{"age": [0, 14], "marital_status": ["Married", "Widowed"]}``. For a measured attribute the
values are the lowest and the highest excluded one, for others a list of labels. Rules must be
known without looking at the data. They become zeros of the model, so no record drawn from it
breaks one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import PlanError
from sherd.methods.graphical.fitting import Zero
from sherd.tables.attribute import value_of
from sherd.tables.axis import Axis, measure

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.methods.graphical.public_grid import PublicGrid
    from sherd.tables.schema import Attribute, Schema

MOST_ATTRIBUTES = 4
"""Attributes that one rule may speak of."""

MOST_TRIED = 100_000
"""Combinations that are tried in the search for one that rules allow."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """For each attribute by its name, the axis positions [first, last] that the rule is about."""

    ranges: Mapping[str, tuple[tuple[int, int], ...]]

    def holds(self, grid: PublicGrid) -> NDArray[np.bool_]:
        """Which cells of an attribute's grid the rule is about; missing cells never are."""
        inside = np.zeros(grid.size, np.bool_)
        starts = np.array(grid.edges[:-1])
        for first, last in self.ranges[grid.name]:
            inside[: grid.cells] |= (starts >= first) & (starts <= last)
        return inside


def read_rules(given: Sequence[Any], schema: Schema, names: Sequence[str]) -> tuple[Rule, ...]:
    """The rules of a plan, checked against the schema."""
    rules = []
    for one in given:
        if not isinstance(one, Mapping) or not one or len(one) > MOST_ATTRIBUTES:
            raise PlanError(
                "a rule cannot be understood",
                must=f"a mapping of 1 to {MOST_ATTRIBUTES} attributes to excluded values",
            )
        unknown = sorted(set(one) - set(names))
        if unknown:
            raise PlanError(
                "a rule speaks of an attribute that is not released",
                must="one of " + ", ".join(names),
                got=", ".join(unknown),
            )
        rules.append(Rule(ranges={name: _ranges(schema[name], one[name]) for name in one}))
    return tuple(rules)


def _ranges(attribute: Attribute, values: Any) -> tuple[tuple[int, int], ...]:
    axis = Axis.of(attribute)
    wrong = PlanError(
        f"a rule's values of '{attribute.name}' cannot be understood",
        must="[lowest, highest] excluded value of the domain"
        if attribute.type.measured
        else "a list of its labels",
    )
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise wrong
    if not attribute.type.measured:
        labels = axis.labels or ("false", "true")
        texts = [str(v).lower() if isinstance(v, bool) else str(v) for v in values]
        if not set(texts) <= set(labels):
            raise wrong
        return tuple((labels.index(text), labels.index(text)) for text in texts)
    if len(values) != 2:
        raise wrong
    try:
        low, high = (measure(value_of(str(v), attribute.type)) / axis.step for v in values)
    except ValueError:
        raise wrong from None
    first, last = max(-(-low // 1) - axis.low, 0), min(high // 1 - axis.low, axis.steps)
    if first > last:
        raise wrong
    return ((int(first), int(last)),)


def cuts(rules: Sequence[Rule], name: str) -> set[int]:
    """The axis positions at which an attribute's grid must be cut for the rules."""
    return {
        edge
        for rule in rules
        for first, last in rule.ranges.get(name, ())
        for edge in (first, last + 1)
    }


def kinds(rules: Sequence[Rule], grid: PublicGrid) -> NDArray[np.int64]:
    """A number for each cell; cells that some rule tells apart have different ones."""
    found = np.zeros(grid.size, np.int64)
    for rule in rules:
        if grid.name in rule.ranges:
            found = found * 2 + rule.holds(grid)
    return np.unique(found, return_inverse=True)[1].astype(np.int64)


def check_possible(rules: Sequence[Rule], grids: Sequence[PublicGrid]) -> None:
    """Raise where rules together exclude every record that has no missing cell."""
    about = [grid for grid in grids if any(grid.name in rule.ranges for rule in rules)]
    # Cells that no rule tells apart are one case: the rules that hold for it.
    cases = []
    for grid in about:
        held = np.array([r.holds(grid) for r in rules if grid.name in r.ranges])[:, : grid.cells]
        places = [i for i, rule in enumerate(rules) if grid.name in rule.ranges]
        distinct = np.unique(held, axis=1).T
        cases.append(
            [{i for i, holds in zip(places, one, strict=True) if holds} for one in distinct]
        )
    left = [sum(grid.name in rule.ranges for grid in about) for rule in rules]
    tried = 0

    def possible(at: int, open_: Sequence[int]) -> bool:
        """Whether the attributes from this one on can be chosen; 0 open ones break a rule."""
        nonlocal tried
        if at == len(about):
            return True
        for case in sorted(cases[at], key=len):
            tried += 1
            after = [many - (i in case) for i, many in enumerate(open_)]
            if tried <= MOST_TRIED and all(after) and possible(at + 1, after):
                return True
        return False

    if not possible(0, left):
        raise PlanError(
            "the rules together exclude every record"
            if tried <= MOST_TRIED
            else "it takes too long to tell whether the rules leave any record",
            must="combinations that are rare",
            do="leave out rules, or values of them",
        )


def zeros(
    rules: Sequence[Rule], grids: Sequence[PublicGrid], bins: Sequence[tuple[int, ...]]
) -> tuple[Zero, ...]:
    """The combinations of bins that the rules exclude."""
    found = []
    for rule in rules:
        places = tuple(a for a, grid in enumerate(grids) if grid.name in rule.ranges)
        excluded = np.ones((), np.bool_)
        for a in places:
            inside = np.zeros(max(bins[a]) + 1, np.bool_)
            inside[np.array(bins[a])[rule.holds(grids[a])]] = True
            excluded = np.logical_and.outer(excluded, inside)
        found.append(Zero(attributes=places, excluded=excluded))
    return tuple(found)
