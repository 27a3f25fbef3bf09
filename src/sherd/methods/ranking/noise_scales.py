"""Scales of the noise, as exact fractions over one denominator.

The noise on cluster j's sum is discrete Laplace of scale numerator_j / denominator, in steps
of the axis. Numerators are rounded upwards only: never less noise than declared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from sherd.errors import PlanError
from sherd.methods.ranking.sensitivity import Shifts, loss

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.randomness import Randomness

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
