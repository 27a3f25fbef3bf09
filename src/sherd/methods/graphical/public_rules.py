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
        if excluded.all():
            raise PlanError("a rule excludes every record", must="a combination that is rare")
        found.append(Zero(attributes=places, excluded=excluded))
    return tuple(found)
