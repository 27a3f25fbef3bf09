"""How a plan's epsilon and k are shared out over the attributes.

>>> from sherd.release.plan import Plan
>>> from sherd.tables.schema import Schema
>>> schema = Schema.from_data({"attributes": {n: {"type": "boolean"} for n in "ab"}})
>>> epsilons(Plan(method="dp", epsilon=1, weights={"a": 3}), schema)
{'a': Fraction(3, 4), 'b': Fraction(1, 4)}

Scales of the noise, as exact fractions over one denominator.

The noise on cluster j's sum is discrete Laplace of scale numerator_j / denominator, in steps
of the axis. Numerators are rounded upwards only: never less noise than declared.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from numbers import Integral, Real
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import PlanError, did_you_mean
from sherd.methods.ranking.sensitivity import Shifts, loss

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from numpy.typing import NDArray

    from sherd.randomness import Randomness
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
    numbers = {}
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
        numbers[name] = number
    return numbers


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


LARGEST = 2**54
"""No numerator is larger: the sampler multiplies it by small numbers in 64 bits."""


@dataclass(frozen=True, kw_only=True)
class Scales:
    """One scale a cluster: numerators over a shared denominator, in steps."""

    numerators: NDArray[np.int64]
    denominator: int

    @classmethod
    def laplace(cls, sensitivity: NDArray[np.int64], epsilon: Fraction) -> Scales:
        """The Laplace mechanism: sensitivity over epsilon."""
        widest = int(sensitivity.max(initial=0)) * epsilon.denominator
        if widest > LARGEST or epsilon.numerator > LARGEST:
            return cls._rounded_up(sensitivity / float(epsilon))
        return cls(
            numerators=sensitivity * np.int64(epsilon.denominator), denominator=epsilon.numerator
        )

    @classmethod
    def _rounded_up(cls, scales: NDArray[np.float64]) -> Scales:
        """Scales known as floats only, with as fine a denominator as fits."""
        widest = max(1.0, float(scales.max(initial=0)))
        if widest >= LARGEST:
            raise PlanError(
                "the noise would be too wide to draw exactly",
                must="a scale of at most 2**54 steps",
                do="raise epsilon, lower min_scale, or declare a wider `grid` in the schema",
            )
        spare = min(20, 53 - int(widest).bit_length())
        denominator = 1 << max(0, spare)
        # One part in 2**40 more than the float says covers its rounding.
        numerators = np.ceil(scales * denominator * (1 + 2.0**-40)).astype(np.int64)
        return cls(numerators=numerators, denominator=denominator)

    def values(self) -> NDArray[np.float64]:
        """The scales as floats, for accounts; the noise is drawn from the fractions."""
        return self.numerators / self.denominator

    def at_least(self, floor: Fraction, sizes: NDArray[np.int64]) -> Scales:
        """The same scales, none smaller than the floor (in steps) times the cluster's size."""
        least = {
            int(size): -(-floor.numerator * int(size) * self.denominator // floor.denominator)
            for size in np.unique(sizes)
        }
        if max(least.values(), default=0) > LARGEST:
            floor_values = float(floor) * sizes
            return Scales._rounded_up(np.maximum(self.values(), floor_values))
        floors = np.array([least[int(size)] for size in sizes], np.int64)
        return replace(self, numerators=np.maximum(self.numerators, floors))

    def covering(self, shifts: Shifts, epsilon: Fraction) -> Scales:
        """The same scales enlarged until the loss of the whole vector is at most epsilon."""
        factor = loss(shifts, self.values()) / float(epsilon)
        if factor <= 1:
            return self
        return Scales._rounded_up(self.values() * factor * (1 + 2.0**-40))

    def draw(self, randomness: Randomness) -> NDArray[np.int64]:
        """Noise for every cluster."""
        return randomness.discrete_laplace(self.numerators, self.denominator)
