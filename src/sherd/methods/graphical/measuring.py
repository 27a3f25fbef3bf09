"""Measuring: the one door between the data and everything that is computed from noisy numbers.

A release asks a ``Measurer`` for noisy histograms and knows nothing else of the data. One
owner's measurer counts its own table and adds noise (``NoisyCounts`` over a ``CountSource``);
owners of rows add noisy shares; owners of columns or cells count inside secure computation
and open nothing but the noisy result. Requests carry their noise, so that each of them spends
exactly what the accounting says.

Sensitivity. Neighbours differ in one substituted record: in every histogram one count falls by
one and another rises by one, or none changes. So the L1 distance is at most 2, the L2 distance
at most √2, and

- discrete Laplace noise of scale b costs 2/b of ε,
- discrete Gaussian noise of deviation σ costs 2/(2σ²) = 1/σ² of ρ (zCDP).

>>> Noise(kind="laplace", scale=Fraction(40)).cost, Noise(kind="gaussian", scale=Fraction(10)).cost
(Fraction(1, 20), Fraction(1, 100))
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

    from sherd.randomness import Randomness

    Counts = NDArray[np.int64]

SHARPNESS = 16
"""Scales of noise are whole multiples of 1/16."""


MOST_STEPS = {"laplace": 2**30, "gaussian": 2**23}
"""Sixteenths of the largest scale: no table has as many records, and no sampler draws more."""


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Discrete noise: Laplace with its scale, or Gaussian with its standard deviation."""

    kind: Literal["laplace", "gaussian"]
    scale: Fraction

    def __post_init__(self) -> None:
        if self.kind not in ("laplace", "gaussian") or self.scale <= 0:
            raise PlanError("the noise is not valid", must="laplace or gaussian, a scale above 0")

    @classmethod
    def costing(cls, kind: Literal["laplace", "gaussian"], amount: Fraction) -> Noise:
        """The least noise on one histogram that costs no more than an amount of ε or ρ.

        >>> noise = Noise.costing("gaussian", Fraction(1, 1000))
        >>> noise.scale, noise.cost <= Fraction(1, 1000)
        (Fraction(253, 8), True)
        """
        if amount <= 0:
            raise PlanError("a histogram has no budget", must="an amount above 0")
        if kind == "laplace":
            steps = math.ceil(SHARPNESS * 2 / amount)
        else:
            least = SHARPNESS * SHARPNESS / amount  # the square of the number of steps
            steps = math.isqrt(math.ceil(least))
            steps += steps * steps < least
        if steps > MOST_STEPS[kind]:
            raise PlanError(
                "a histogram's share of the budget is too small",
                must=f"noise of a scale up to {MOST_STEPS[kind] // SHARPNESS:,}",
                do="raise epsilon",
            )
        return cls(kind=kind, scale=Fraction(steps, SHARPNESS))

    @property
    def cost(self) -> Fraction:
        """What one histogram with this noise costs: ε for Laplace, ρ for Gaussian."""
        return 2 / self.scale if self.kind == "laplace" else 1 / self.scale**2

    @property
    def variance(self) -> float:
        """The variance of one draw."""
        scale = float(self.scale)
        if self.kind == "laplace":
            return 2 * math.exp(-1 / scale) / math.expm1(-1 / scale) ** 2
        if scale > 2:
            return scale**2  # to more digits than a float holds
        places = range(-40, 41)
        weights = [math.exp(-(x**2) / (2 * scale**2)) for x in places]
        return sum(w * x**2 for w, x in zip(weights, places, strict=True)) / sum(weights)

    def draw(self, randomness: Randomness, n: int) -> Counts:
        """Draw n times, exactly."""
        if self.kind == "laplace":
            return randomness.discrete_laplace(self.scale.numerator, self.scale.denominator, n)
        from sherd.randomness.gaussian import discrete_gaussian

        return discrete_gaussian(randomness, self.scale, n)


class Binned:
    """What has bins for some attributes: a combination of bins is a cell."""

    bins: tuple[tuple[int, ...], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each attribute has."""
        return tuple(max(one) + 1 for one in self.bins)

    @property
    def cells(self) -> int:
        """How many counts the histogram has."""
        return math.prod(self.shape)


@dataclass(frozen=True, kw_only=True)
class Marginal(Binned):
    """A histogram over the bins of a few attributes.

    ``attributes`` are places in the coded table, ascending; ``bins`` gives for each of them the
    bin of every fine code. Both are public: they follow from schema, plan and noisy numbers.
    """

    attributes: tuple[int, ...]
    bins: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        if list(self.attributes) != sorted(set(self.attributes)) or not self.attributes:
            raise PlanError("a marginal's attributes are not valid", must="distinct and ascending")
        if len(self.bins) != len(self.attributes) or not all(self.bins):
            raise PlanError("a marginal's bins are not valid", must="a bin for every fine code")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One marginal to measure and the noise to add to each of its counts."""

    marginal: Marginal
    noise: Noise


@dataclass(frozen=True, kw_only=True, eq=False)
class Measurement:
    """A request and its answer: noisy counts in the marginal's shape."""

    request: Request
    counts: Counts

    def __post_init__(self) -> None:
        if self.counts.shape != self.request.marginal.shape or self.counts.dtype != np.int64:
            raise PlanError("a measurement is not valid", must="whole numbers in its own shape")


class CountSource(Protocol):
    """Who can count records exactly: a table in memory, a database, one owner's rows."""

    @property
    def rows(self) -> int:
        """The public number of records."""

    def histogram(self, marginal: Marginal) -> Counts:
        """The exact number of records of every combination of bins, in the marginal's shape."""


class Measurer(Protocol):
    """Who answers requests with noisy histograms, and with nothing else."""

    @property
    def rows(self) -> int:
        """The public number of records."""

    def measure(self, requests: Sequence[Request]) -> list[Measurement]:
        """Every requested histogram with its noise, each count's drawn by itself."""


class NoisyCounts:
    """The measurer of one owner: exact counts of a source, noise of an exact sampler."""

    def __init__(self, source: CountSource, randomness: Randomness) -> None:
        self._source, self._randomness = source, randomness

    @property
    def rows(self) -> int:
        """The public number of records."""
        return self._source.rows

    def measure(self, requests: Sequence[Request]) -> list[Measurement]:
        """Every requested histogram with its noise."""
        answers = []
        for request in requests:
            exact = self._source.histogram(request.marginal)
            noise = request.noise.draw(self._randomness, exact.size)
            answers.append(Measurement(request=request, counts=exact + noise.reshape(exact.shape)))
        return answers


class CodedTable:
    """The count source of a table in memory: the fine code of every cell, column by column.

    >>> table = CodedTable([np.array([0, 1, 2, 1])], [3])
    >>> table.histogram(Marginal(attributes=(0,), bins=((0, 0, 1),))).tolist()
    [3, 1]
    """

    def __init__(self, codes: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> None:
        self._codes, self._sizes = codes, tuple(sizes)
        self._binned: dict[tuple[int, tuple[int, ...]], NDArray[np.integer]] = {}

    @property
    def rows(self) -> int:
        """The number of records."""
        return len(self._codes[0])

    def histogram(self, marginal: Marginal) -> Counts:
        """The exact number of records of every combination of bins."""
        index: NDArray[np.int64] | None = None
        for attribute, bins, size in zip(
            marginal.attributes, marginal.bins, marginal.shape, strict=True
        ):
            binned = self._bins_of(attribute, bins)
            if index is None:
                index = binned.astype(np.int64)
            else:
                index *= size
                index += binned
        assert index is not None
        return np.bincount(index, minlength=marginal.cells).reshape(marginal.shape)

    def _bins_of(self, attribute: int, bins: tuple[int, ...]) -> NDArray[np.integer]:
        """The bins of a column, kept for the next histogram that asks for them."""
        assert len(bins) == self._sizes[attribute]
        codes = self._codes[attribute]
        if bins == tuple(range(len(bins))):
            return codes
        key = (attribute, bins)
        if key not in self._binned:
            kind = np.min_scalar_type(max(bins))
            self._binned[key] = np.array(bins, kind)[codes]
        return self._binned[key]
