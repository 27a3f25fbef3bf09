"""The measurements of a released model against the true counts of the original.

Residuals of all measured counts must have exactly the declared noise (`noise_residuals`); what
halving the noise would have shown is said with it. Each histogram is tested by itself besides: one
without noise drowns among many. Whether the records were drawn is tested too (`copied_records`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.noise.copied_records import check_copies
from sherd.auditing.noise.noise_test import ALPHA
from sherd.auditing.verdict.verdict_points import NOISE, percent
from sherd.verifying.check import Check
from sherd.verifying.noise_residuals import (
    Residuals,
    chance_of_less,
    grain_of,
    residuals,
    sizes_of_noise,
)

if TYPE_CHECKING:
    from sherd.auditing.case.case import Case
    from sherd.auditing.noise.evidence import Evidence

LITTLE = 0.7 * ALPHA
"""The part of the false alarms that is spent on too little noise in all counts together."""

OTHERS = 0.1 * ALPHA
"""The part spent on each of: too much noise, uneven noise, single histograms."""

FEW, MANY = 300, 9_999
"""Residuals up to which the least size is simulated, and how often."""

SIMULATED = 500
"""Releases with halved noise that are simulated."""


def check(case: Case, evidence: Evidence) -> list[Check]:
    """Whether measured counts differ from the true ones by the declared noise."""
    apart = residuals(evidence.original, evidence.schema, evidence.documents["model"])
    return [judged_residuals(apart, case.rng("noise")), check_copies(case, evidence)]


def judged_residuals(measured: Residuals, rng: np.random.Generator) -> Check:
    """Consistent with the declared noise, refuted, or not testable."""
    each = OTHERS / max(1, len(measured.histograms))
    least = least_size(measured, rng)
    wrong = _wrong(measured, least, each)
    if wrong:
        detail = f"refuted: {wrong} (p ≤ {ALPHA:g})"
        return Check(name=NOISE, passed=False, detail=detail)
    power = float(np.mean(measured.drawn(rng, SIMULATED, 0.5) < least))
    shown = f"{measured.words}; noise halved would be found in {percent(power)} of releases"
    if power < 0.5:
        return Check(name=NOISE, passed=None, detail=f"not testable: {shown} only")
    detail = f"consistent with the plan: {shown}{_blind(measured, each)}"
    return Check(name=NOISE, passed=True, detail=f"{detail} (false alarms: {percent(ALPHA)})")


def _wrong(measured: Residuals, least: float, each: float) -> str:
    """What is not as the plan says; nothing where all is."""
    if measured.size < least:
        return f"too little noise for the plan: {measured.words}"
    if measured.too_much() <= OTHERS:
        return f"too much noise for the plan: {measured.words}"
    if measured.shifted() <= OTHERS:
        return "noise that goes one way: counts are all too large or all too small"
    for names, scale, apart in measured.histograms:
        if _chance(measured.kind, scale, len(apart), int(np.abs(apart).sum())) <= each:
            return f"the counts of {_quoted(names)} have too little noise"
    return ""


def _chance(kind: str, scale: float, cells: int, total: int) -> float:
    """The chance that sizes of so many draws add up to no more than that."""
    grain = grain_of(scale)
    return chance_of_less(sizes_of_noise(kind, scale / grain), cells, total // grain)


def _blind(measured: Residuals, each: float) -> str:
    """The histograms that would not be found without any noise."""
    names = [
        _quoted(names)
        for names, scale, apart in measured.histograms
        if _chance(measured.kind, scale, len(apart), 0) > each
    ]
    return f", a single histogram without noise not of {', '.join(names)}" if names else ""


def _quoted(names: tuple[str, ...]) -> str:
    return " and ".join(f"'{name}'" for name in names)


def least_size(measured: Residuals, rng: np.random.Generator) -> float:
    """The size below which there is too little noise: of few residuals by exact simulations."""
    if measured.many <= FEW:
        place = int(LITTLE * (MANY + 1) + 1e-9)
        return float(np.sort(measured.drawn(rng, MANY))[place - 1])
    low, high = 0.0, measured.many * 2.0  # the mean of each is at most 1
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if measured.too_little(middle) <= LITTLE else (low, middle)
    return low
