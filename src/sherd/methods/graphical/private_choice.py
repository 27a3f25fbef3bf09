"""Private choice: which of several marginals is worth measuring, told by its noisy rank.

The utility of a candidate is the L1 distance between its histogram and one that is expected
from noisy numbers alone. A substituted record changes the histogram by at most 2 in L1 distance,
so the utility by at most Δ = 2, whatever is expected. One candidate is chosen,

- for zCDP by the exponential mechanism, P ∝ exp(e·u/(2Δ)), which costs e²/8 of ρ (its range is
  bounded: Cesar and Rogers 2021, Dong and others 2020);
- for pure ε by permute-and-flip with the same e, which costs e of ε and is never worse than
  the exponential mechanism (mckenna2020).

Both are exact: utilities are whole numbers, e is a fraction, and acceptance by a Bernoulli
trial of probability exp(−e·(best − u)/(2Δ)) uses no floating point.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np

from sherd.errors import PlanError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sherd.methods.graphical.measuring import CountSource, Marginal
    from sherd.randomness import Randomness

SENSITIVITY = 2
"""How far one substituted record moves a utility."""

SHARPNESS = 2**20
"""Rates are whole multiples of 1/2^20."""


@dataclass(frozen=True, kw_only=True, eq=False)
class MarginalCandidate:
    """A marginal that could be measured, and the counts that are expected without doing so."""

    marginal: Marginal
    expected: NDArray[np.int64]


def rate_of(kind: Literal["laplace", "gaussian"], amount: Fraction) -> Fraction:
    """The largest e, on the grid of rates, whose choice costs no more than an amount of ε or ρ.

    >>> float(rate_of("gaussian", Fraction(2))), float(rate_of("laplace", Fraction(2)))
    (4.0, 2.0)
    """
    if kind == "laplace":
        steps = int(amount * SHARPNESS)
    else:
        steps = math.isqrt(int(8 * amount * SHARPNESS**2))
    if steps < 1:
        raise PlanError("a choice has too small a share of the budget", do="raise epsilon")
    return Fraction(steps, SHARPNESS)


def cost_of(kind: Literal["laplace", "gaussian"], rate: Fraction) -> Fraction:
    """What one choice at this rate costs: ε, or ρ of zCDP."""
    return rate if kind == "laplace" else rate**2 / 8


class Chooser(Protocol):
    """Who chooses among candidates, and tells nothing but the place of the chosen one."""

    def choose(self, candidates: Sequence[MarginalCandidate], rate: Fraction) -> int:
        """The place of a candidate that is far from what is expected."""


class NoisyChoice:
    """The chooser of one owner; ``kind`` says which mechanism it is."""

    def __init__(
        self,
        source: CountSource,
        randomness: Randomness,
        kind: Literal["laplace", "gaussian"],
    ) -> None:
        self._source, self._randomness, self._kind = source, randomness, kind
        self._utilities: dict[
            MarginalCandidate, int
        ] = {}  # candidates are equal to themselves only

    def utility(self, candidate: MarginalCandidate) -> int:
        """The exact distance: for the choice and for tests only."""
        if candidate not in self._utilities:
            counts = self._source.histogram(candidate.marginal)
            self._utilities[candidate] = int(np.abs(counts - candidate.expected).sum())
        return self._utilities[candidate]

    def choose(self, candidates: Sequence[MarginalCandidate], rate: Fraction) -> int:
        """The place of the chosen candidate."""
        utilities = np.array([self.utility(one) for one in candidates], np.int64)
        behind = (int(utilities.max()) - utilities) * rate.numerator
        unit = 2 * SENSITIVITY * rate.denominator
        if self._kind == "laplace":
            return self._permute_and_flip(behind, unit)
        while True:
            place = int(self._randomness.below(len(candidates), 1)[0])
            if self._randomness.bernoulli_exp(int(behind[place]), unit, 1)[0]:
                return place

    def _permute_and_flip(self, behind: NDArray[np.int64], unit: int) -> int:
        """In random order, the first candidate whose trial succeeds."""
        for place in self._randomness.permutation(len(behind)):
            if self._randomness.bernoulli_exp(int(behind[place]), unit, 1)[0]:
                return int(place)
        raise AssertionError("the best candidate's trial always succeeds")
