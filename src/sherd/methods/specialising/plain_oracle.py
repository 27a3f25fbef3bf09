"""The oracle in the clear: one owner's counts, with exact noise.

One pass over each attribute makes its histogram by class; every utility afterwards is a
difference of its cumulative sums, and no record is looked at again until the leaves are
counted.

A choice adds geometric noise to every utility and takes the largest, ties broken uniformly.
That is permute-and-flip exactly: with exponential noise E, floor(E·t/s) is the geometric
noise, and what the floor cuts off is independent of it and equally distributed for all
candidates, so it breaks ties uniformly (mckenna2020).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import numpy as np

from sherd.methods.graphical.measuring import Marginal
from sherd.methods.specialising.scores import scores

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sherd.methods.graphical.measuring import CountSource
    from sherd.methods.specialising.scores import Budget
    from sherd.methods.specialising.specialise import Candidate, Cuts
    from sherd.randomness import Randomness

    Codes = NDArray[np.int64]


class NoiseSource(Protocol):
    """Where an oracle's noise comes from."""

    def largest(self, groups: Sequence[NDArray[np.int64]], rate: Fraction) -> list[int]:
        """In each group the place of the largest utility after geometric noise of that rate."""

    def laplace(self, n: int, rate: Fraction) -> NDArray[np.int64]:
        """Discrete Laplace noise of that rate, n draws."""


class ExactNoise:
    """NoiseSource of the exact samplers of ``sherd.randomness``."""

    def __init__(self, randomness: Randomness) -> None:
        self._randomness = randomness

    def largest(self, groups: Sequence[NDArray[np.int64]], rate: Fraction) -> list[int]:
        """In each group the place of the largest noisy utility, ties broken uniformly."""
        return [self._largest(utilities, rate) for utilities in groups]

    def _largest(self, utilities: NDArray[np.int64], rate: Fraction) -> int:
        noisy = utilities + self._randomness.geometric(
            rate.denominator, rate.numerator, len(utilities)
        )
        best = np.flatnonzero(noisy == noisy.max())
        return int(best[int(self._randomness.below(len(best))[0])])

    def laplace(self, n: int, rate: Fraction) -> NDArray[np.int64]:
        """Discrete Laplace noise of that rate, n draws."""
        return self._randomness.discrete_laplace(rate.denominator, rate.numerator, n)


class CountingOracle:
    """Answers from exact counts: each attribute's by class, and those of any leaves."""

    def __init__(
        self,
        histograms: Histograms,
        leaves: Callable[[Cuts], NDArray[np.int64]],
        *,
        utility: str,
        budget: Budget,
        noise: NoiseSource,
    ) -> None:
        self._histograms, self._leaves = histograms, leaves
        self._utility, self._budget, self._noise = utility, budget, noise

    def choose(self, groups: Sequence[Sequence[Candidate]]) -> list[int]:
        """Report-noisy-max in each group."""
        utilities = [self.utilities(group) for group in groups]
        return self._noise.largest(utilities, self._budget.choice_rate)

    def utilities(self, group: Sequence[Candidate]) -> NDArray[np.int64]:
        """The exact utility of every candidate: for the choice and for tests only."""
        children, first = self._histograms.children(group)
        return scores(self._utility, children, first)

    def count(self, cuts: Cuts, choices: int) -> NDArray[np.int64]:
        """The number of records of each leaf and class, with discrete Laplace noise."""
        exact = self._leaves(cuts)
        noise = self._noise.laplace(exact.size, self._budget.count_rate(choices))
        return exact + noise.reshape(exact.shape)


class PlainOracle(CountingOracle):
    """Answers from all records: codes of each attribute and the class of each record."""

    def __init__(
        self,
        codes: Sequence[Codes],
        sizes: Sequence[int],
        classes: Codes,
        n_classes: int,
        *,
        utility: str,
        budget: Budget,
        noise: NoiseSource,
    ) -> None:
        super().__init__(
            Histograms.of(codes, sizes, classes, n_classes),
            lambda cuts: leaf_counts(codes, cuts, classes, n_classes),
            utility=utility,
            budget=budget,
            noise=noise,
        )


def oracle_over(
    counts: CountSource,
    sizes: Sequence[int],
    n_classes: int | None,
    *,
    utility: str,
    budget: Budget,
    noise: NoiseSource,
) -> CountingOracle:
    """An oracle over records that are counted elsewhere: attributes, and the class as the last."""
    target = () if n_classes is None else (len(sizes),)
    classes = () if n_classes is None else (tuple(range(n_classes)),)

    def counted(wanted: Sequence[tuple[int, tuple[int, ...]]], rows: int) -> NDArray[np.int64]:
        places, bins = (*(a for a, _ in wanted), *target), (*(b for _, b in wanted), *classes)
        if not places:
            return np.array([[counts.rows]], np.int64)
        return counts.histogram(Marginal(attributes=places, bins=bins)).reshape(rows, -1)

    def leaves(cuts: Cuts) -> NDArray[np.int64]:
        parts = [(a, cut) for a, cut in enumerate(cuts) if len(cut) > 2]
        wanted = [(a, tuple(part_of_code(cut).tolist())) for a, cut in parts]
        return counted(wanted, math.prod(len(cut) - 1 for _, cut in parts))

    tables = [counted([(a, tuple(range(size)))], size) for a, size in enumerate(sizes)]
    return CountingOracle(Histograms(tables), leaves, utility=utility, budget=budget, noise=noise)


class Histograms:
    """Cumulative counts by code and class of every attribute, in one array."""

    def __init__(self, tables: Sequence[NDArray[np.int64]]) -> None:
        """``tables`` are the counts by code and class, one for each attribute."""
        sizes = np.array([len(table) for table in tables], np.int64)
        self._start = np.concatenate([[0], np.cumsum(sizes + 1)])
        self._sums = np.zeros((int(self._start[-1]), tables[0].shape[1]), np.int64)
        for begin, table in zip(self._start, tables, strict=False):
            np.cumsum(table, axis=0, out=self._sums[begin + 1 : begin + 1 + len(table)])

    @classmethod
    def of(
        cls, codes: Sequence[Codes], sizes: Sequence[int], classes: Codes, n_classes: int
    ) -> Histograms:
        """Count records, given their codes and classes."""
        tables = []
        for size, column in zip(sizes, codes, strict=True):
            # A code below 0 marks a cell that somebody else holds.
            here = column * n_classes + classes
            if column.size and column.min() < 0:
                here = here[column >= 0]
            table = np.bincount(here, minlength=size * n_classes)
            tables.append(table.reshape(size, n_classes))
        return cls(tables)

    def add_to_last(self, attribute: int, counts: NDArray[np.int64]) -> None:
        """Add to the counts by class of an attribute's last code."""
        self._sums[self._start[attribute + 1] - 1] += counts

    def children(self, group: Sequence[Candidate]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Class counts of every child of every candidate, and where each candidate's begin."""
        fans = np.array([one.fan for one in group], np.int64)
        first = np.concatenate([[0], np.cumsum(fans)[:-1]])
        offset = np.repeat(self._start[[one.attribute for one in group]], fans)
        low = np.concatenate([one.edges[:-1] for one in group]) + offset
        high = np.concatenate([one.edges[1:] for one in group]) + offset
        return self._sums[high] - self._sums[low], first


def leaf_counts(
    codes: Sequence[Codes], cuts: Cuts, classes: Codes, n_classes: int
) -> NDArray[np.int64]:
    """The exact number of records of each leaf (last attribute fastest) and class."""
    leaf = np.zeros(len(classes), np.int64)
    leaves = 1
    for column, cut in zip(codes, cuts, strict=True):
        parts = len(cut) - 1
        leaves *= parts
        if parts > 1:
            leaf *= parts
            leaf += part_of_code(cut)[column]
    counts = np.bincount(leaf * n_classes + classes, minlength=leaves * n_classes)
    return counts.reshape(leaves, n_classes)


def part_of_code(cut: tuple[int, ...]) -> NDArray[np.int64]:
    """Which interval of a cut each code lies in.

    >>> part_of_code((0, 2, 3)).tolist()
    [0, 0, 1]
    """
    return np.repeat(np.arange(len(cut) - 1), np.diff(cut))
