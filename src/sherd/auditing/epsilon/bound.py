"""A lower bound on the privacy loss from runs on two neighbouring tables.

Each run is one score. On one half of the runs an event is chosen (a score above or below some
threshold), on the other half its probabilities p and q under the two tables are bounded by
Clopper and Pearson, each at half the level: with confidence 1 − alpha, log(p_low / q_high) is
at most the true loss. Choosing on one half and testing on the other is what makes the level
honest: the best-looking event of many would be found by luck.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_THRESHOLDS = 200


@dataclass(frozen=True, kw_only=True)
class Bound:
    """What the runs show: with confidence 1 − alpha the loss is at least ``lower``.

    ``hits`` and ``trials`` count the event's occurrences on the testing half, first where it
    is more likely, then where it is less.
    """

    lower: float
    estimate: float
    hits: tuple[int, int]
    trials: tuple[int, int]
    event: str
    alpha: float

    def exceeds(self, claimed: float) -> bool:
        """Whether the claim is refuted, wrongly with probability at most alpha."""
        return self.lower > claimed

    def words(self) -> str:
        """The counts behind the bound."""
        return (
            f"an event chosen beforehand ({self.event}) seen in {self.hits[0]:,} of "
            f"{self.trials[0]:,} runs on one table and {self.hits[1]:,} of {self.trials[1]:,} on "
            "its neighbour"
        )


def lower_bound(
    first: NDArray[np.float64], second: NDArray[np.float64], *, alpha: float = 0.05
) -> Bound:
    """The bound from the scores of runs on a table and on its neighbour."""
    cut_first, cut_second = len(first) // 2, len(second) // 2
    choosing = np.sort(first[:cut_first]), np.sort(second[:cut_second])
    testing = first[cut_first:], second[cut_second:]
    swapped, above, threshold = _choose(choosing[0], choosing[1], alpha)
    likely, rare = testing[::-1] if swapped else testing
    hits = [
        int(np.count_nonzero(scores >= threshold if above else scores <= threshold))
        for scores in (likely, rare)
    ]
    low, high = _bounds(np.array(hits[:1]), len(likely), np.array(hits[1:]), len(rare), alpha)
    lower = math.log(low[0] / high[0]) if low[0] > 0 else 0.0
    p, q = hits[0] / len(likely), max(hits[1], 0.5) / len(rare)
    return Bound(
        lower=max(0.0, lower),
        estimate=max(0.0, math.log(p / q)) if p > 0 else 0.0,
        hits=(hits[0], hits[1]),
        trials=(len(likely), len(rare)),
        event=f"score {'at least' if above else 'at most'} {threshold:.4g}",
        alpha=alpha,
    )


def _choose(
    first: NDArray[np.float64], second: NDArray[np.float64], alpha: float
) -> tuple[bool, bool, float]:
    """The event with the best bound on the choosing half: (tables swapped, above, threshold)."""
    pooled = np.concatenate([first, second])
    thresholds = np.unique(np.quantile(pooled, np.linspace(0.001, 0.999, _THRESHOLDS)))
    best = (-math.inf, False, True, float(thresholds[0]))
    for swapped in (False, True):
        likely, rare = (second, first) if swapped else (first, second)
        for above in (True, False):
            counts = [_count(scores, thresholds, above) for scores in (likely, rare)]
            low, high = _bounds(counts[0], len(likely), counts[1], len(rare), alpha)
            with np.errstate(divide="ignore"):
                values = np.log(low) - np.log(high)
            place = int(np.argmax(values))
            best = max(best, (float(values[place]), swapped, above, float(thresholds[place])))
    return best[1:]


def _count(
    ordered: NDArray[np.float64], thresholds: NDArray[np.float64], above: bool
) -> NDArray[np.int64]:
    """How many scores lie at or beyond each threshold."""
    if above:
        return len(ordered) - np.searchsorted(ordered, thresholds, side="left")
    return np.searchsorted(ordered, thresholds, side="right")


def _bounds(
    hits: NDArray[np.int64], trials: int, others: NDArray[np.int64], of: int, alpha: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Lower bounds of one probability, upper bounds of the other, at half the level each."""
    from scipy.special import betaincinv

    low = np.where(hits > 0, betaincinv(np.maximum(hits, 1), trials - hits + 1, alpha / 2), 0.0)
    high = np.where(
        others < of, betaincinv(others + 1, np.maximum(of - others, 1), 1 - alpha / 2), 1.0
    )
    return low, high
