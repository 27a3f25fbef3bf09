"""What single cells give away: unchanged values, and intervals around released ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.case.case import pick
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, clopper_pearson

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case

WIDTHS = tuple(range(1, 11))
"""Widths of the intervals, in per cent of the records."""

_MOST = 50_000


def same(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether numbers are equal, up to the last bits that a change of unit may cost."""
    return np.abs(a - b) <= 1e-12 * np.abs(a)


def unchanged(case: Case) -> list[Measure]:
    """The share of protected cells that were released as they are."""
    parts, chance = {}, []
    cells = kept = 0
    for name in case.protected:
        before, after = case.paired(name)
        present = ~(np.isnan(before) | np.isnan(after))
        equal = int(np.count_nonzero(same(before, after)))
        cells += int(np.count_nonzero(present))
        kept += equal
        parts[name] = equal / max(1, int(np.count_nonzero(present)))
        chance.append(_coincidence(before[present], after[present]))
    return [
        Measure(
            spec=CATALOGUE["unchanged"],
            value=kept / max(1, cells),
            basis=f"{kept:,} of {cells:,} cells, exact",
            baseline=float(np.mean(chance)),
            against="the same values in shuffled rows",
            parts=parts,
        )
    ]


def _coincidence(before: NDArray[np.float64], after: NDArray[np.float64]) -> float:
    """The chance that a random original equals a random released value."""
    if not before.size:
        return 0.0
    values, counts = np.unique(before, return_counts=True)
    others, times = np.unique(after, return_counts=True)
    _, one, other = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    return float((counts[one] / before.size) @ (times[other] / after.size))


def interval_disclosure(case: Case) -> list[Measure]:
    """How often the original lies in a narrow interval of ranks around the released value."""
    rng = case.rng("interval")
    rows = pick(rng, case.n_released, _MOST)
    parts, chance = {}, {}
    for name in case.protected:
        before, after = case.paired(name)
        ordered = np.sort(case.original[name][~np.isnan(case.original[name])])
        x, y = before[rows], after[rows]
        present = ~(np.isnan(x) | np.isnan(y))
        x, y = x[present], y[present]
        if not x.size:
            continue
        nominal = case.scales[name].labels is not None
        parts[name] = _inside(ordered, x, y, nominal)
        chance[name] = _inside(ordered, x[rng.permutation(len(x))], y, nominal)
    if not parts:
        return []
    value = float(np.mean(list(parts.values())))
    low, high = clopper_pearson(value * len(rows), len(rows))
    sampled = len(rows) < case.n_released
    return [
        Measure(
            spec=CATALOGUE["interval"],
            value=value,
            low=low,
            high=high,
            basis=f"{len(rows):,} records{' at random' if sampled else ''} × {len(parts)} "
            "attributes (interval as for one attribute)",
            baseline=float(np.mean(list(chance.values()))),
            against="the same in shuffled rows",
            parts=parts,
            sampled=sampled,
        )
    ]


def _inside(
    ordered: NDArray[np.float64],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    nominal: bool,
) -> float:
    if nominal:
        return float(np.mean(x == y))
    n = len(ordered)
    first = np.searchsorted(ordered, y, side="left")
    last = np.searchsorted(ordered, y, side="right") - 1
    shares = []
    for width in WIDTHS:
        reach = int(width * n / 200)
        low = ordered[np.clip(first - reach, 0, n - 1)]
        high = ordered[np.clip(np.maximum(last, first) + reach, 0, n - 1)]
        # The released value itself is always part of its interval.
        inside = (x >= np.minimum(low, y)) & (x <= np.maximum(high, y))
        shares.append(np.mean(inside if reach else same(x, y)))
    return float(np.mean(shares))


UNCHANGED = Attack(
    name="unchanged",
    title="Taking released values at face value",
    codes=("unchanged",),
    knows="nothing",
    does="takes every released cell for the truth",
    wins="when the cell is the original",
    source="–",
    run=unchanged,
    whole=True,
)
INTERVAL = Attack(
    name="interval",
    title="Interval disclosure",
    codes=("interval",),
    knows="the distribution of every attribute",
    does="draws an interval of p % of the records, p = 1 … 10, around each released value",
    wins="when the original lies in it",
    source="Mateo-Sanz, Sebé and Domingo-Ferrer 2004",
    run=interval_disclosure,
)
