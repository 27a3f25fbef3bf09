"""Whether the order of released rows tells nothing of the order of their originals.

Rows are taken in twos, next to each other. In a shuffled release either of the two could have
stood first, so the product of what changes from one to the other, in the original and in the
release, is as often positive as negative: S = Σ d is beyond t·√Σd² with a chance of at most
2·exp(−t²/2), whatever the columns look like (Hoeffding).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.noise.noise_test import ALPHA
from sherd.auditing.verdict.confidence_intervals import ranks
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case

NAME = "order of the rows"


def check_order(case: Case) -> Check:
    """Refuted where rows lie as in the original."""
    n = case.n_released
    if case.order is not None:
        place = np.arange(n, dtype=np.float64)
        pairs = [(place, case.order.astype(np.float64))]
    else:
        pairs = [(case.original[a], case.released[a]) for a in case.names if case.n == n]
    scores = [one for one in (_swaps(x, y) for x, y in pairs) if one is not None]
    if not scores:
        return Check(name=NAME, passed=None, detail="not testable: no attribute varies")
    p = min(1.0, 2 * len(scores) * float(np.exp(-(max(scores) ** 2) / 2)))
    if p <= ALPHA:
        detail = f"refuted: rows lie as in the original, not shuffled (p ≤ {ALPHA:g})"
        return Check(name=NAME, passed=False, detail=detail)
    detail = f"consistent with shuffling (false alarms: at most {ALPHA:.1%})"
    return Check(name=NAME, passed=True, detail=detail)


def _swaps(x: NDArray[np.float64], y: NDArray[np.float64]) -> float | None:
    """How far changes from row to row go together on both sides; None where nothing changes."""
    a, b = ranks(x), ranks(y)
    even = len(a) // 2 * 2
    d = (a[1:even:2] - a[:even:2]) * (b[1:even:2] - b[:even:2])
    norm = float(np.sqrt(d @ d))
    return abs(float(d.sum())) / norm if norm > 0 else None
