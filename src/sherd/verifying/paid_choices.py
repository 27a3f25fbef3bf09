"""Whether marginals were chosen as the plan says: a choice that looks at the data is paid for.

Measured without a price are the marginals that plan and bins name alone: the workload, or every
pair of attributes, or every triple with the class. Fewer of them were chosen, which only a plan
for a tree does, at a stated rate.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MOST_CELLS = 60_000
"""A marginal of more cells is never measured."""


def check_choice(
    document: Mapping[str, Any], plan: Mapping[str, Any], sizes: Mapping[str, int]
) -> Check:
    """The measured marginals are all that the plan names, or some that were paid for."""
    choice, kind = document["choice"], plan.get("choice", "tree")
    measured = [frozenset(one["attributes"]) for one in document["marginals"]]
    possible = {
        one
        for one in _named(plan, list(sizes))
        if math.prod(sizes[name] for name in one) <= MOST_CELLS
    }
    fit = choice["kind"] == kind and len(set(measured)) == len(measured)
    if choice["rate"] is None:
        fit = fit and choice["picks"] == 0 and set(measured) == possible
        said = "all that the plan names"
    else:
        fit = fit and kind == "tree" and set(measured) <= possible
        said = f"{len(measured)} of {len(possible)}, by {choice['picks']} choices that are paid for"
    return Check(
        name="choice of marginals",
        passed=fit,
        detail=said if fit else "others than the plan names, or chosen without being paid for",
    )


def _named(plan: Mapping[str, Any], names: Sequence[str]) -> set[frozenset[str]]:
    """Every marginal that a plan speaks of."""
    if plan.get("choice") == "workload":
        return {frozenset(one) for one in plan["workload"]}
    target = plan.get("class_attribute")
    free = [name for name in names if name != target]
    if target is not None and len(free) < 2:
        return {frozenset((name, target)) for name in free}
    ends = () if target is None else (target,)
    return {frozenset((*pair, *ends)) for pair in itertools.combinations(free, 2)}
