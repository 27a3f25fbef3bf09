"""Whether the order of released rows tells nothing of the order of their originals.

Rows are taken in twos, next to each other. In a shuffled release either of the two could have
stood first, so the product of what changes from one to the other, in the original and in the
release, is as often positive as negative: S = Σ d is beyond t·√Σd² with a chance of at most
2·exp(−t²/2), whatever the columns look like (Hoeffding).

Without a row map the noise may drown the order: whether rows that were left in place would show is
tried on simulated releases by the plan, and where they would not, nothing is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.epsilon.mechanism import scales, sizes, sums
from sherd.auditing.noise.noise_test import ALPHA
from sherd.auditing.verdict.measure import ranks
from sherd.auditing.verdict.verdict_points import percent
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case
    from sherd.auditing.epsilon.mechanism import Mechanism

    Floats = NDArray[np.float64]

NAME = "order of the rows"
SIMULATED = 4
"""Releases that are simulated to see whether rows left in place would show."""


def check_order(case: Case) -> Check:
    """Refuted where rows lie as in the original; not testable where that would not show."""
    n = case.n_released
    if case.order is not None:
        place = np.arange(n, dtype=np.float64)
        pairs = [(place, case.order.astype(np.float64))]
    else:
        pairs = [(case.original[a], case.released[a]) for a in case.names if case.n == n]
    p = _chance(pairs)
    if p is None:
        return Check(name=NAME, passed=None, detail="not testable: no attribute varies")
    if p <= ALPHA:
        detail = f"refuted: rows lie as in the original, not shuffled (p ≤ {ALPHA:g})"
        return Check(name=NAME, passed=False, detail=detail)
    power = 1.0 if case.order is not None else _power(case)
    shown = f"rows left in place would show in {percent(power)} of releases"
    if power < 0.5:
        detail = f"not testable without a row map: {shown} only, under so much noise"
        return Check(name=NAME, passed=None, detail=detail)
    detail = f"consistent with shuffling; {shown} (false alarms: at most {percent(ALPHA)})"
    return Check(name=NAME, passed=True, detail=detail)


def _chance(pairs: Iterable[tuple[Floats, Floats]]) -> float | None:
    """The chance of so much order in a shuffled release; None where nothing varies."""
    scores = [one for one in (_swaps(x, y) for x, y in pairs) if one is not None]
    if not scores:
        return None
    return min(1.0, 2 * len(scores) * float(np.exp(-(max(scores) ** 2) / 2)))


def _power(case: Case) -> float:
    """How often rows left in place would show, in releases simulated by the plan.

    Attributes that the plan does not mask show their order by themselves.
    """
    rng = case.rng("order")
    same = [(c, c) for name, c in case.original.items() if name not in case.mechanisms]
    shown = 0
    for _ in range(SIMULATED):
        masked = (
            (case.original[name], _masked(case.original[name], one, rng))
            for name, one in case.mechanisms.items()
        )
        p = _chance([*same, *masked])
        shown += p is not None and p <= ALPHA
    return shown / SIMULATED


def _masked(values: Floats, mechanism: Mechanism, rng: np.random.Generator) -> Floats:
    """A column as the plan masks it, its rows left in place."""
    masked = np.clip(values, mechanism.low, mechanism.high)
    known = np.flatnonzero(~np.isnan(masked))
    x = masked[known]
    if mechanism.single:
        reach = np.full(len(x), mechanism.width)
        if mechanism.reach == "local":
            reach = np.maximum(mechanism.high - x, x - mechanism.low)
        masked[known] = x + rng.laplace(size=len(x)) * reach / mechanism.epsilon
    elif len(x) >= mechanism.k:
        place = np.argsort(x, kind="stable")
        size = sizes(len(x), mechanism.k)
        noise = rng.laplace(size=len(size)) * scales(x[place], mechanism)
        means = (sums(x[place], mechanism) + noise) / size
        masked[known[place]] = np.repeat(means, size)
    return np.clip(masked, mechanism.low, mechanism.high)


def _swaps(x: Floats, y: Floats) -> float | None:
    """How far changes from row to row go together on both sides; None where nothing changes."""
    a, b = ranks(x), ranks(y)
    even = len(a) // 2 * 2
    d = (a[1:even:2] - a[:even:2]) * (b[1:even:2] - b[:even:2])
    norm = float(np.sqrt(d @ d))
    return abs(float(d.sum())) / norm if norm > 0 else None
