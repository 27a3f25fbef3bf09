"""Measured numbers beside each other: told apart, or within the noise of their runs.

A judge that counts cells says in how many the claim holds, in how many the two numbers differ by
less than the noise, and in how many it fails. A verdict needs enough of the first or too many of
the last; otherwise it cannot be told.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

ERRORS = 2.0
"""Standard errors of a difference within which two numbers are not told apart."""
EXTREME = 4.0
"""The same for a cell that was chosen as the largest or least of many."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A mean of runs and its standard error."""

    value: float
    error: float = 0.0

    def minus(self, other: Measured) -> Measured:
        """The difference of two means.

        >>> Measured(value=5.0, error=3.0).minus(Measured(value=1.0, error=4.0))
        Measured(value=4.0, error=5.0)
        """
        return Measured(value=self.value - other.value, error=math.hypot(self.error, other.error))

    def over(self, other: Measured) -> Measured:
        """The ratio of two means, its error to first order.

        >>> Measured(value=4.0, error=0.0).over(Measured(value=2.0, error=0.5))
        Measured(value=2.0, error=0.5)
        """
        ratio = self.value / other.value
        return Measured(
            value=ratio, error=math.hypot(self.error, ratio * other.error) / abs(other.value)
        )

    def side_of(self, limit: float, errors: float = ERRORS) -> int:
        """1 above a limit, -1 below it, 0 where the noise leaves it open.

        >>> [Measured(value=v, error=0.1).side_of(1.0) for v in (0.7, 1.1, 1.3)]
        [-1, 0, 1]
        """
        gap = self.value - limit
        if abs(gap) <= errors * self.error:
            return 0
        return (gap > 0) - (gap < 0)

    def at_most(self, limit: float, errors: float = ERRORS) -> bool | None:
        """Whether the number is at most so large; a number without noise may be just so large."""
        side = self.side_of(limit, errors)
        if side == 0:
            return True if self.error == 0 else None
        return side < 0

    def below(self, limit: float, errors: float = ERRORS) -> bool | None:
        """Whether the number is lower than a limit.

        >>> [Measured(value=v, error=0.1).below(1.0) for v in (0.7, 1.1, 1.3)]
        [True, None, False]
        """
        side = self.side_of(limit, errors)
        return None if side == 0 and self.error > 0 else side < 0

    def near_zero(self, limit: float) -> bool | None:
        """Whether the number is at most so far from 0; untold where noise alone would be.

        >>> [Measured(value=v, error=0.02).near_zero(0.1) for v in (-0.05, 0.12, 0.2)]
        [True, None, False]
        >>> Measured(value=0.0, error=0.06).near_zero(0.1) is None
        True
        """
        if abs(self.value) - ERRORS * self.error > limit:
            return False
        seen = ERRORS * self.error <= limit
        return True if seen and abs(self.value) <= limit else None

    def between(self, least: float, most: float) -> bool | None:
        """Whether the number lies between two others."""
        return every((self.at_most(most), Measured(value=-self.value, error=self.error).at_most(
            -least)))  # fmt: skip


def mean(found: Sequence[Measured]) -> Measured:
    """The mean of several numbers of separate runs.

    >>> mean([Measured(value=1.0, error=3.0), Measured(value=3.0, error=4.0)])
    Measured(value=2.0, error=2.5)
    """
    count = len(found)
    return Measured(
        value=sum(m.value for m in found) / count,
        error=math.hypot(*(m.error for m in found)) / count,
    )


def every(held: Iterable[bool | None]) -> bool | None:
    """Whether all parts of a claim hold: one that fails refutes it, one untold leaves it open.

    >>> every([True, None]), every([None, False]), every([True, True])
    (None, False, True)
    """
    parts = list(held)
    return False if False in parts else (None if None in parts else True)


@dataclass(frozen=True, kw_only=True)
class Tally:
    """In how many cells a number is lower than another, within the noise, and higher."""

    lower: int = 0
    within: int = 0
    higher: int = 0

    @classmethod
    def of(cls, pairs: Iterable[tuple[Measured, Measured]]) -> Tally:
        """Count pairs by whether the first is lower than the second.

        >>> one, two = Measured(value=1.0, error=0.1), Measured(value=2.0, error=0.1)
        >>> print(Tally.of([(one, two), (one, two)]).words())
        lower in all 2
        >>> print(Tally.of([(one, two), (one, one), (one, two)]).words())
        lower in 2, within noise in 1, higher in 0 of 3
        """
        sides = [a.minus(b).side_of(0.0) for a, b in pairs]
        return cls(lower=sides.count(-1), within=sides.count(0), higher=sides.count(1))

    @property
    def cells(self) -> int:
        """How many were counted."""
        return self.lower + self.within + self.higher

    def plus(self, other: Tally) -> Tally:
        """Both counts together."""
        return Tally(
            lower=self.lower + other.lower,
            within=self.within + other.within,
            higher=self.higher + other.higher,
        )

    def words(
        self, lower: str = "lower", within: str = "within noise", higher: str = "higher"
    ) -> str:
        """The three counts, named."""
        if self.cells and self.lower == self.cells:
            return f"{lower} in all {self.cells}"
        return (
            f"{lower} in {self.lower}, {within} in {self.within}, {higher} in {self.higher} of "
            f"{self.cells}"
        )

    def holds(self, share: float, against: float | None = None) -> bool | None:
        """Whether the first is lower in at least so large a share of the cells.

        Refuted where it is higher in a larger share than ``against``, the rest unless given.

        >>> Tally(lower=19, within=1).holds(0.95), Tally(lower=9, within=1).holds(0.95)
        (True, None)
        >>> Tally(lower=18, higher=2).holds(0.95)
        False
        """
        most = 1 - share if against is None else against
        if self.higher > most * self.cells + 1e-9:
            return False
        return True if self.lower >= share * self.cells - 1e-9 else None
