"""The measurements of a released model against the true counts of the original.

Residuals of all measured counts must have exactly the declared noise (`noise_residuals`); what
halving the noise would have shown is said with it. Each histogram is tested by itself besides: one
without noise drowns among many. The chance that its residuals are as small as they are is exact for
few cells, and from above for many, whose sum is nearly normal with a longer tail on the other side.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.noise.noise_test import ALPHA
from sherd.auditing.verdict.verdict_points import NOISE, percent
from sherd.verifying.check import Check
from sherd.verifying.noise_residuals import SIGMAS, Residuals, residuals, sizes_of_noise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.noise.evidence import Evidence

FEW = 200
"""Cells of a histogram up to which the chance of its residuals is exact."""


def check(case: Case, evidence: Evidence) -> list[Check]:
    """Whether measured counts differ from the true ones by the declared noise."""
    del case
    found = residuals(evidence.original, evidence.schema, evidence.documents["model"])
    return [judged_residuals(found)]


def judged_residuals(found: Residuals) -> Check:
    """Consistent with the declared noise, refuted, or not testable."""
    shown = (
        f"{found.standardised.size:,} measured counts are off by {found.mean_size:.3f} times what "
        "the declared noise does"
    )
    if not found.as_declared:
        how = "little" if found.mean_size < 1 else "much"
        detail = f"refuted: too {how} noise for the plan: {shown} (p ≤ {_rate():.0e})"
        return Check(name=NOISE, passed=False, detail=detail)
    each = ALPHA / max(1, len(found.histograms))
    for names, scale, apart in found.histograms:
        if _chance(found.kind, scale, len(apart), int(np.abs(apart).sum())) <= each:
            detail = (
                f"refuted: the counts of {_quoted(names)} have too little noise (p ≤ {ALPHA:g})"
            )
            return Check(name=NOISE, passed=False, detail=detail)
    power = power_of(found)
    if power < 0.5:
        detail = f"not testable: noise halved would be found in {percent(power)} of releases only"
        return Check(name=NOISE, passed=None, detail=detail)
    detail = (
        f"consistent with the plan: {shown}; noise halved would be found in {percent(power)} of "
        f"releases{_blind(found, each)} (false alarms: {percent(ALPHA)})"
    )
    return Check(name=NOISE, passed=True, detail=detail)


def _chance(kind: str, scale: float, cells: int, total: int) -> float:
    """The chance that sizes of so many draws add up to no more than that."""
    sizes = sizes_of_noise(kind, scale)
    if cells > FEW:
        places = np.arange(len(sizes))
        mean = float(sizes @ places)
        deviation = math.sqrt(float(sizes @ (places - mean) ** 2))
        return NormalDist(cells * mean, math.sqrt(cells) * deviation).cdf(total + 0.5)
    sums: NDArray[np.float64] = np.ones(1)
    for _ in range(cells):
        sums = np.convolve(sums, sizes)[: total + 1]
    return float(sums.sum())


def _blind(found: Residuals, each: float) -> str:
    """The histograms that would not be found without any noise."""
    names = [
        _quoted(names)
        for names, scale, apart in found.histograms
        if _chance(found.kind, scale, len(apart), 0) > each
    ]
    return f", a single histogram without noise not of {', '.join(names)}" if names else ""


def _quoted(names: tuple[str, ...]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def power_of(found: Residuals) -> float:
    """The chance that noise of half the size would have been found.

    Its mean size is ½ with half the deviation, so it is missed above 1 − slack.
    """
    deviation = found.slack / SIGMAS / 2
    return 1 - NormalDist().cdf((found.slack - 0.5) / deviation)


def _rate() -> float:
    """The chance of a false alarm: mean or mean size beyond so many standard errors."""
    return 2 * math.erfc(SIGMAS / math.sqrt(2))
