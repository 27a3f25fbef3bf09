"""Whether a model was made by the settings that its plan and its measurements lead to.

How strongly a model is drawn towards independence is not chosen with the data in view: it is
3·(n/s)^⅔ for n records, where 1/s² is the sum of 1/sᵢ² over all that the model is fitted to, and
no deviation sᵢ of noise is less than one record. Earlier releases have a share of the records.

A choice of marginals that looks at the data is paid for. Measured without a price are the
marginals that plan and bins name alone: the workload, or every pair of attributes, or every triple
with the class. Where fewer were measured, they were chosen, which only a plan for a tree does, at a
stated rate.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STRENGTH, POWER = 3, 2 / 3

EARLIER = (0.004, 0.016)
"""The strengths of earlier releases, for each record."""

LEAST_SHARE = 1e-6
LEAST_RIDGE, LEAST_RECORDS = 1e-5, 0.05


def variance_of(kind: str, scale: float) -> float:
    """The variance of discrete noise of a kind, Laplace or Gaussian."""
    if kind == "laplace":
        ratio = math.exp(-1 / scale)
        return 2 * ratio / (1 - ratio) ** 2
    if scale >= 4:  # as that of continuous noise, to more digits than a float holds
        return scale**2
    chances = [math.exp(-(x**2) / (2 * scale**2)) for x in range(60)]
    squares = math.fsum(x**2 * chance for x, chance in enumerate(chances))
    return 2 * squares / (2 * math.fsum(chances) - 1)


def check_settings(document: Mapping[str, Any], variances: Sequence[float]) -> Check:
    """Strength and limits of the fit are those of the records and of the noise fitted to."""
    fit, rows = document["fit"], document["rows"]
    beside = rows * math.sqrt(sum(1 / max(1.0, variance) for variance in variances))
    strengths = [STRENGTH * beside**POWER, *(share * rows for share in EARLIER)]
    passed = (
        set(fit) == {"strength", "least_share", "least_ridge", "gradient"}
        and all(type(value) in (int, float) for value in fit.values())
        and any(math.isclose(fit["strength"], one, rel_tol=1e-6) for one in strengths)
        and fit["least_share"] == LEAST_SHARE
        and math.isclose(fit["least_ridge"], max(LEAST_RIDGE, LEAST_RECORDS / rows), rel_tol=1e-9)
    )
    return Check.of(
        "settings of the fit",
        passed,
        "are those that records and noise lead to",
        "are not those that records and noise lead to",
    )


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
    return Check.of(
        "choice of marginals",
        fit,
        said,
        "others than the plan names, or chosen without being paid for",
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
