"""Utilities: how good a specialisation is, as whole numbers with known sensitivity.

Notation: v a node, c its children, D_c^cls the records of class cls in c, S a set of records.

- ``max`` (wang2020, equation 3): Σ_c max_cls |D_c^cls|.
- ``gain``: Σ_c max_cls |D_c^cls| − max_cls |D_v^cls|, how many more records majority votes of
  the children get right than one of v. It does not favour large nodes that a split tells
  nothing about, as ``max`` does.
- ``info-gain``: |D_v| times the information gain of the split, F(D_v) − Σ_c F(D_c) with
  F(S) = |S| log2 |S| − Σ_cls |S^cls| log2 |S^cls|, in fixed point.
- ``purity``: −Σ_c F(D_c), what is left of ``info-gain`` where v is the same for all candidates.
- ``spread``: |D_v| − max_c |D_c|, how many records are told apart from the largest child. It
  needs no class.

Sensitivity. Let one record be added. ``max`` and ``spread`` change by 0 or 1: they are
*monotone*. Substituting a record removes one and adds one, so they change by at most 1, and
that is all their sensitivity. ``gain`` is a difference of two monotone terms and changes by
−1, 0 or 1 when a record is added, so by up to 2 when one is substituted. Adding a record of
class i to S changes F(S) by g(|S|) − g(|S^i|) with g(t) = (t+1) log2(t+1) − t log2 t, which
rises from 0 and is at most log2(t+1) + 1/ln 2 (friedman2010, section 4); so F changes by
between 0 and log2 n + 1/ln 2, and ``info-gain``, a difference of two such, by at most that in
either direction; twice that when a record is substituted.

Fixed point: t log2 t is rounded to 2^−``FRACTION_BITS``. A record added touches four of these
terms (|D_v|, |D_v^i|, |D_c|, |D_c^i|), each before and after, each off by half a unit, so the
sensitivity grows by 4 units a record.

Why a substitution never costs more than Δ here, even where two disjoint parts of the data are
split in one step (the two children of a numeric node): the record may leave one part and
enter the other. Choosing with rate λ, a part that only loses or gains the record costs λ if
the utility is monotone and 2λΔ_1 if not, Δ_1 being the change by one added record. Two parts
cost 2λ or 4λΔ_1: the same as one substitution inside one part, 2λΔ.

Budget (wang2020, Algorithm 1). Half of epsilon is set aside for choices: one for each measured
attribute's first split, h for the cuts and, where there are measured attributes, h for the splits
that follow, each with epsilon' = epsilon / (2 (d_num + 2h)). The counts get the other half, and
what the choices that were made did not need: how many were made is public, and costs of pure
differential privacy add up also when later ones depend on earlier results (rogers2016, section 4).

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

import numpy as np

from sherd.errors import PlanError

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

    Counts = NDArray[np.int64]


FRACTION_BITS = 8
UNIT = float(1 << FRACTION_BITS)

UTILITIES = ("max", "gain", "info-gain", "spread")
"""Every utility a specialisation can be chosen by."""

NEED_CLASS = ("max", "gain", "info-gain")


def sensitivity(utility: str, n: int) -> int:
    """The most a utility changes when one of n records is substituted.

    >>> sensitivity("max", 10), sensitivity("gain", 10), sensitivity("info-gain", 1)
    (1, 2, 750)
    """
    if utility in ("max", "spread"):
        return 1
    if utility == "gain":
        return 2
    bits: float = math.log2(max(n, 1)) + 1 / math.log(2)
    # One unit more than the ceiling, so that an error of the logarithm cannot matter.
    return 2 * (math.ceil(bits * UNIT) + 1 + 4)


def monotone_change(utility: str, n: int) -> int:
    """The width of the interval a utility's change lies in when a record is added.

    0 or 1 for ``max`` and ``spread``. ``purity`` falls, by at most log2 n + 1/ln 2; rounding
    moves both ends by 2 units, so the width is that of one record in ``info-gain``.
    """
    if utility in ("max", "spread"):
        return 1
    if utility != "purity":
        raise PlanError("the utility is not monotone", must="max, spread or purity", got=utility)
    return sensitivity("info-gain", n) // 2


def scores(utility: str, children: Counts, first: NDArray[np.int64]) -> Counts:
    """The utility of every candidate.

    ``children`` has a row of class counts for each child, those of one candidate together;
    ``first`` says where each candidate's begin.

    >>> children = np.array([[4, 1], [2, 3]])
    >>> [int(scores(u, children, np.array([0]))[0]) for u in ("max", "gain", "spread")]
    [7, 1, 5]
    """
    if utility == "purity":
        impurity: Counts = np.add.reduceat(_entropy(children), first)
        return -impurity
    if utility not in UTILITIES:
        raise PlanError("the utility is unknown", must="one of " + ", ".join(UTILITIES))
    if utility == "spread":
        sizes = children.sum(axis=1)
        told_apart: Counts = np.add.reduceat(sizes, first) - np.maximum.reduceat(sizes, first)
        return told_apart
    if utility == "info-gain":
        nodes = np.add.reduceat(children, first, axis=0)
        gained: Counts = _entropy(nodes) - np.add.reduceat(_entropy(children), first)
        return gained
    right: Counts = np.add.reduceat(children.max(axis=1), first)
    if utility == "gain":
        right = right - np.add.reduceat(children, first, axis=0).max(axis=1)
    return right


def _entropy(counts: Counts) -> Counts:
    """F of every row, in units of 2^−FRACTION_BITS."""
    entropies: Counts = _xlogx(counts.sum(axis=1)) - _xlogx(counts).sum(axis=1)
    return entropies


def _xlogx(counts: Counts) -> Counts:
    logs = np.log2(np.maximum(counts, 1))
    rounded: Counts = np.rint(counts * logs * UNIT).astype(np.int64)
    return rounded


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
