"""One measured number with everything a reader needs to judge it.

A number alone misleads. Each comes with a confidence interval or the exact count behind it,
a baseline to hold it against, one line of meaning, and a label: *publishable* where it was
computed from the release alone, *internal* where the original took part, since no guarantee
covers it then.

Intervals are exact ones for counts, percentiles for everything else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


class Side(StrEnum):
    """Which side of the bargain a measure speaks of."""

    UTILITY = "utility"
    RISK = "risk"
    PROMISE = "promise"


class Label(StrEnum):
    """Who may see a number."""

    PUBLISHABLE = "publishable"
    INTERNAL = "internal"


class Better(StrEnum):
    """Which way a measure improves, for the owner of the data."""

    LOWER = "lower"
    HIGHER = "higher"


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What a measure is: its definition, range, meaning, label and direction.

    ``needs`` lists what must be known: ``pairs`` (which original stands behind a released
    row), ``control`` (records that took no part in the release), ``target`` (a column to
    predict), ``rows`` (a release made of records), ``run`` (a method that can be run again).
    """

    code: str
    title: str
    side: Side
    definition: str
    meaning: str
    range: str = "0 to 1"
    label: Label = Label.INTERNAL
    better: Better = Better.LOWER
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Measure:
    """A measured value of one spec.

    ``low`` and ``high`` bound it with 95 % confidence (None: it is exact), ``basis`` says
    how many records, cells or queries it rests on and whether they are a sample,
    ``baseline`` what it would be in the case that ``against`` names. ``floor`` is what no data
    at all would give, ``caution`` a reason not to call a good value good.
    """

    spec: Spec
    value: float
    basis: str
    low: float | None = None
    high: float | None = None
    baseline: float | None = None
    against: str = ""
    parts: Mapping[str, float] = field(default_factory=dict)
    sampled: bool = False
    floor: float | None = None
    caution: str = ""

    @property
    def code(self) -> str:
        """The measure's short name."""
        return self.spec.code

    @property
    def excess(self) -> float | None:
        """How far a share lies above its baseline, as a share of what was possible.

        >>> from sherd.auditing.catalogue import CATALOGUE
        >>> Measure(spec=CATALOGUE["linkage"], value=0.75, basis="", baseline=0.5).excess
        0.5
        """
        if self.baseline is None or not self.baseline < 1:
            return None
        return (self.value - self.baseline) / (1 - self.baseline)

    def as_data(self) -> dict[str, object]:
        """The measure as plain data; numbers that are not finite become None."""
        return {
            "code": self.code,
            "title": self.spec.title,
            "side": self.spec.side.value,
            "value": plain(self.value),
            "low": plain(self.low),
            "high": plain(self.high),
            "confidence": None if self.low is None and self.high is None else 0.95,
            "basis": self.basis,
            "sampled": self.sampled,
            "baseline": plain(self.baseline),
            "against": self.against,
            "better": self.spec.better.value,
            "meaning": self.spec.meaning,
            "label": self.spec.label.value,
            "parts": {name: plain(part) for name, part in self.parts.items()},
        }


@dataclass(frozen=True, kw_only=True)
class Skipped:
    """A measure that was left out, and what it would have needed.

    ``lacks`` is the one of the spec's ``needs`` that was not there.
    """

    spec: Spec
    reason: str
    lacks: str = ""

    def as_data(self) -> dict[str, object]:
        """The skipped measure as plain data."""
        return {"code": self.spec.code, "title": self.spec.title, "reason": self.reason}


def plain(number: float | None) -> float | str | None:
    """A number that JSON can hold: infinity becomes text, not-a-number nothing.

    >>> plain(math.inf), plain(math.nan), plain(0.5)
    ('infinite', None, 0.5)
    """
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        return "infinite" if number > 0 else "-infinite"
    return float(number)


def clopper_pearson(hits: float, trials: int, *, alpha: float = 0.05) -> tuple[float, float]:
    """The exact two-sided interval of a proportion; never covers with less than 1 − alpha.

    >>> low, high = clopper_pearson(0, 10)
    >>> low, round(high, 4)
    (0.0, 0.3085)
    """
    if trials <= 0:
        return 0.0, 1.0
    return lower_bound(hits, trials, alpha=alpha / 2), upper_bound(hits, trials, alpha=alpha / 2)


def beside_control(hits: float, others: float, trials: int) -> tuple[float, float]:
    """An interval of a share of hits, to be compared with the share among as many others.

    Both are samples. Each end is as far from the share as the errors of both groups say, added as
    squares, so that without a difference the lower end is above the others' share in 2.5 % of
    cases at most. That of the hits alone is in about 8 %, and in more where hits are rare.

    >>> clopper_pearson(10, 200)[0] > 4 / 200 > beside_control(10, 4, 200)[0]
    True
    """
    (low, high), (least, most) = clopper_pearson(hits, trials), clopper_pearson(others, trials)
    share, beside = hits / max(1, trials), others / max(1, trials)
    down = math.hypot(share - low, most - beside)
    up = math.hypot(high - share, beside - least)
    return max(0.0, share - down), min(1.0, share + up)


def lower_bound(hits: float, trials: int, *, alpha: float) -> float:
    """The exact one-sided lower bound of a proportion (Clopper and Pearson 1934)."""
    from scipy.special import betaincinv

    return 0.0 if hits <= 0 else float(betaincinv(hits, trials - hits + 1, alpha))


def upper_bound(hits: float, trials: int, *, alpha: float) -> float:
    """The exact one-sided upper bound of a proportion."""
    from scipy.special import betaincinv

    return 1.0 if hits >= trials else float(betaincinv(hits + 1, trials - hits, 1 - alpha))


def mean_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The normal 95 % interval of a mean."""
    spread = float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else 0.0
    centre = float(np.mean(values))
    return centre - 1.96 * spread, centre + 1.96 * spread


def median_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """The 95 % interval of a median by order statistics: no assumption on the distribution.

    >>> median_interval(np.arange(100.0))
    (39.0, 60.0)
    """
    from scipy.special import bdtrik

    ordered = np.sort(values)
    n = len(ordered)
    # The largest r with P(Binomial(n, 1/2) < r) at most 2.5 %.
    r = int(np.nan_to_num(np.ceil(bdtrik(0.025, n, 0.5))))
    return float(ordered[max(0, r - 1)]), float(ordered[min(n - 1, n - r)])


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks from 1, equal values sharing their mean rank.

    >>> ranks(np.array([10.0, 30.0, 10.0])).tolist()
    [1.5, 3.0, 1.5]
    """
    ordered = np.sort(values)
    first = np.searchsorted(ordered, values, side="left")
    last = np.searchsorted(ordered, values, side="right")
    return (first + last + 1) / 2
