"""How a plan's epsilon and k are shared out over the attributes.

>>> from sherd.release.plan import Plan
>>> from sherd.tables.schema import Schema
>>> schema = Schema.from_data({"attributes": {n: {"type": "boolean"} for n in "ab"}})
>>> epsilons(Plan(method="dp", epsilon=1, weights={"a": 3}), schema)
{'a': Fraction(3, 4), 'b': Fraction(1, 4)}
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING

from sherd.errors import PlanError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from sherd.release.plan import Plan
    from sherd.tables.schema import Schema

FINEST = 10**6
"""Shares of epsilon are fractions with at most this denominator, never rounded upwards."""


def epsilons(plan: Plan, schema: Schema) -> dict[str, Fraction]:
    """Each protected attribute's share of epsilon; the shares add up to at most epsilon."""
    weights = _numbers(plan["weights"], schema, "weights")
    parts = {name: weights.get(name, Fraction(1)) for name in schema.protected}
    total = sum(parts.values())
    epsilon = plan.exact("epsilon")
    shares = {name: _at_most(epsilon * part / total) for name, part in parts.items()}
    for name, share in shares.items():
        if share <= 0:
            raise PlanError(
                f"the attribute '{name}' gets too small a share of epsilon",
                must=f"at least 1/{FINEST}",
                do="raise epsilon, or the attribute's weight",
            )
    return shares


def cluster_sizes(plan: Plan, schema: Schema, least: int) -> dict[str, int]:
    """Each protected attribute's k."""
    own = _numbers(plan["k_of"], schema, "k_of")
    for name, k in own.items():
        if k.denominator != 1 or k < least:
            raise PlanError(
                f"the k of the attribute '{name}' is not valid",
                must=f"a whole number from {least}",
                got=str(k),
            )
    return {name: int(own.get(name, Fraction(plan["k"]))) for name in schema.protected}


def _numbers(given: Mapping[str, Any] | None, schema: Schema, what: str) -> dict[str, Fraction]:
    found = {}
    for name, value in (given or {}).items():
        if name not in schema.protected:
            raise PlanError(
                f"'{what}' names the attribute '{name}', which is not a protected one",
                must="one of " + ", ".join(schema.protected),
                do=did_you_mean(name, schema.protected) or None,
            )
        number = _exact(value)
        if number <= 0:
            raise PlanError(
                f"'{what}' of the attribute '{name}' is not valid",
                must="a number above 0",
                got=repr(value),
            )
        found[name] = number
    return found


def _exact(value: Any) -> Fraction:
    """A number as the decimal fraction that was written, 0 for anything else."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return Fraction(0)
    if isinstance(value, Integral):
        return Fraction(int(value))
    return Fraction(repr(float(value))) if math.isfinite(value) else Fraction(0)


def _at_most(share: Fraction) -> Fraction:
    near = share.limit_denominator(FINEST)
    return (
        near if near <= share else Fraction(share.numerator * FINEST // share.denominator, FINEST)
    )
