"""The measurements of a released model against the true counts of the original.

Residuals of all measured counts must have exactly the declared noise (`noise_residuals`); what
halving the noise would have shown is said with it.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from sherd.auditing.verdict.verdict_points import NOISE, percent
from sherd.verifying.check import Check
from sherd.verifying.noise_residuals import SIGMAS, Residuals, residuals

if TYPE_CHECKING:
    from sherd.auditing.case.case import Case
    from sherd.auditing.noise.evidence import Evidence


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
    power = power_of(found)
    if power < 0.5:
        detail = f"not testable: noise halved would be found in {percent(power)} of releases only"
        return Check(name=NOISE, passed=None, detail=detail)
    detail = (
        f"consistent with the plan: {shown}; noise halved would be found in {percent(power)} of "
        f"releases (false alarms: {_rate():.0e})"
    )
    return Check(name=NOISE, passed=True, detail=detail)


def power_of(found: Residuals) -> float:
    """The chance that noise of half the size would have been found.

    Its mean size is ½ with half the deviation, so it is missed above 1 − slack.
    """
    deviation = found.slack / SIGMAS / 2
    return 1 - NormalDist().cdf((found.slack - 0.5) / deviation)


def _rate() -> float:
    """The chance of a false alarm: mean or mean size beyond so many standard errors."""
    return 2 * math.erfc(SIGMAS / math.sqrt(2))
