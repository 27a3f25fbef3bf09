"""How epsilon is shared out over the choices and the counts (wang2020, Algorithm 1).

Half of epsilon is set aside for choices: one for each measured attribute's first split, h for
the cuts and, where there are measured attributes, h for the splits that follow, each with
epsilon' = epsilon / (2 (d_num + 2h)). The counts get the other half, and what the choices that
were made did not need: how many were made is public, and costs of pure differential privacy
add up also when later ones depend on earlier results (rogers2016, section 4).

Neighbours differ in one substituted record. A choice draws geometric noise of rate
λ = epsilon' / (2Δ) for every candidate and takes the largest, which costs 2Δλ = epsilon'
(mckenna2020: report-noisy-max with exponential noise is permute-and-flip). The counts of
leaves and classes change by 2 in all, one down and one up, so discrete Laplace noise of rate
e/2 costs e. The paper's Lap(2/epsilon) assumes that a record is added or removed, and would
cost a substitution epsilon instead of epsilon/2.

>>> from fractions import Fraction
>>> budget = Budget(epsilon=Fraction(1), specialisations=10, numeric=6, sensitivity=1)
>>> budget.choice, budget.choice_rate, budget.count_rate(26), budget.count_rate(0)
(Fraction(1, 52), Fraction(1, 104), Fraction(1, 4), Fraction(1, 2))
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fractions import Fraction

MOST_LEAVES = 2**31
"""More leaves than any table can hold."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Epsilon and what it is spent on; ``sensitivity`` is that of the utility."""

    epsilon: Fraction
    specialisations: int
    numeric: int
    sensitivity: int

    @property
    def choices(self) -> int:
        """The most choices a run makes."""
        return self.numeric + self.specialisations * (2 if self.numeric else 1)

    @property
    def choice(self) -> Fraction:
        """Epsilon', the cost of one choice."""
        return self.epsilon / (2 * self.choices)

    @property
    def choice_rate(self) -> Fraction:
        """The rate of the geometric noise on a utility."""
        return self.choice / (2 * self.sensitivity)

    def count_rate(self, choices: int) -> Fraction:
        """The rate of the discrete Laplace noise on a count, after a number of choices."""
        assert 0 <= choices <= self.choices
        return (self.epsilon - choices * self.choice) / 2

    def leaves(self, n: int, classes: int, signal: Fraction) -> int:
        """The most leaves whose n records stand out from the noise.

        On average a leaf's count of a class is then ``signal`` standard deviations of the
        noise that half of epsilon buys. Two leaves are always allowed.
        """
        if not signal:
            return MOST_LEAVES
        # The standard deviation of discrete Laplace noise of rate r is just below √2/r.
        deviation = math.sqrt(2) / float(self.epsilon / 4)
        return min(MOST_LEAVES, max(2, int(n / (classes * deviation * float(signal)))))
