"""What released cells give away: unchanged values, narrow intervals, reconstruction, co-clusters.

A released table shows which rows share a cluster in each attribute: their cells are equal.
Somebody who knows every record but one knows the other members of its cluster. From a
released mean c of s members follows x = s·c − (sum of the others), up to s times the noise;
and clusters are cut in order, so x lies between the cluster below and the cluster above. Where
that is worse than taking the released value as it is, the attacker, who can try both on all the
others, does the latter.

Notation: g a group of rows with equal released cells, s its size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.auditing.attacks.attack import Attack
from sherd.auditing.case.case import pick
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, clopper_pearson, ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case

WIDTHS = tuple(range(1, 11))
"""Widths of the intervals, in per cent of the records."""

CLOSE = 0.01
"""A number is recovered when it is off by at most this share of the attribute's range."""

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


def reconstruction(case: Case) -> list[Measure]:
    """Recover the cells of a sample of records, each from all the others."""
    rng = case.rng("reconstruction")
    rows = pick(rng, case.n_released, case.limits.attacked)
    parts, chance = {}, []
    for name in case.protected:
        before, after = case.paired(name)
        chosen = rows[~(np.isnan(before[rows]) | np.isnan(after[rows]))]
        if not chosen.size:
            continue
        nominal = case.scales[name].labels is not None
        width = float(np.nanmax(before) - np.nanmin(before))
        # Somebody who knows all others knows which way works better: chosen on one half.
        ways = (recover(before, after, chosen), after[chosen])
        right = [_close(guess, before[chosen], width, nominal) for guess in ways]
        best = max(right, key=lambda hits: float(np.mean(hits[::2])))
        tested = slice(1, None, 2) if len(chosen) > 1 else slice(None)
        parts[name] = float(np.mean(best[tested]))
        truth = before[chosen][tested]
        blind = np.full(len(truth), _blind(before, nominal))
        chance.append(float(np.mean(_close(blind, truth, width, nominal))))
    many = max(1, len(rows) // 2)
    return _share(case, "reconstruction", parts, chance, many, "guessing the median or mode")


def _blind(values: NDArray[np.float64], nominal: bool) -> float:
    present = values[~np.isnan(values)]
    if nominal:
        return float(np.bincount(present.astype(np.int64)).argmax())
    return float(np.median(present))


def _close(
    guess: NDArray[np.float64], truth: NDArray[np.float64], width: float, nominal: bool
) -> NDArray[np.bool_]:
    if nominal:
        right: NDArray[np.bool_] = np.rint(guess) == truth
        return right
    return (np.abs(guess - truth) <= CLOSE * width) | same(guess, truth)


def recover(
    before: NDArray[np.float64], after: NDArray[np.float64], rows: NDArray[np.int64]
) -> NDArray[np.float64]:
    """The guess for each row's original, from its released cell and all other originals."""
    present = ~(np.isnan(before) | np.isnan(after))
    x, y = before[present], after[present]
    place = np.cumsum(present) - 1
    chosen = place[rows]
    cells, group, sizes = np.unique(y, return_inverse=True, return_counts=True)
    sums = np.bincount(group, weights=x)
    least = np.full(len(cells), np.inf)
    most = np.full(len(cells), -np.inf)
    np.minimum.at(least, group, x)
    np.maximum.at(most, group, x)
    own = group[chosen]
    s = sizes[own]
    guess = s * cells[own] - (sums[own] - x[chosen])
    # The groups in the order of their members; the target's own value decides nothing here
    # that the others of its group would not, as long as there are others.
    ranked = np.argsort(sums / sizes, kind="stable")
    below, above = np.full(len(cells), -np.inf), np.full(len(cells), np.inf)
    below[ranked[1:]] = most[ranked[:-1]]
    above[ranked[:-1]] = least[ranked[1:]]
    usable = (s > 1) & (below[own] <= above[own])
    kept = np.clip(guess, below[own], above[own])
    recovered: NDArray[np.float64] = np.where(usable, kept, np.where(s > 1, guess, y[chosen]))
    return recovered


def co_cluster(case: Case) -> list[Measure]:
    """Whether equal released cells mean that the originals are close."""
    rng = case.rng("co-cluster")
    parts, chance = {}, []
    many = case.limits.attacked
    for name in case.protected:
        before, after = case.paired(name)
        present = ~(np.isnan(before) | np.isnan(after))
        x, y = before[present], after[present]
        if x.size < 2:
            continue
        place = ranks(x)
        reach = max(1.0, 0.01 * len(x))
        one, other = rng.integers(len(x), size=(2, many))
        apart = one != other
        random = float(np.mean(np.abs(place[one] - place[other])[apart] <= reach))
        pairs = _partners(y, many, rng)
        close = np.abs(place[pairs[0]] - place[pairs[1]]) <= reach
        # Without two equal cells nothing can be claimed, which is what chance would give.
        parts[name] = float(np.mean(close)) if close.size else random
        chance.append(random)
    return _share(case, "co-cluster", parts, chance, many, "two rows at random")


def _partners(
    y: NDArray[np.float64], many: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Random pairs of rows with equal cells."""
    order = np.argsort(y, kind="stable")
    _, start, sizes = np.unique(y[order], return_index=True, return_counts=True)
    shared = np.flatnonzero(sizes > 1)
    if not shared.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    chosen = rng.choice(shared, many, p=sizes[shared] / sizes[shared].sum())
    first = rng.integers(sizes[chosen])
    step = rng.integers(1, sizes[chosen])
    second = (first + step) % sizes[chosen]
    return order[start[chosen] + first], order[start[chosen] + second]


def _share(
    case: Case, code: str, parts: dict[str, float], chance: list[float], trials: int, against: str
) -> list[Measure]:
    if not parts:
        return []
    value = float(np.mean(list(parts.values())))
    low, high = clopper_pearson(value * trials, trials)
    noun = "records" if code == "reconstruction" else "pairs of rows"
    return [
        Measure(
            spec=CATALOGUE[code],
            value=value,
            low=low,
            high=high,
            basis=f"{trials:,} {noun} at random × {len(parts)} attributes (interval as for one "
            "attribute)",
            baseline=float(np.mean(chance)),
            against=against,
            parts=parts,
            sampled=trials < case.n_released,
        )
    ]


UNCHANGED = Attack(
    name="unchanged",
    title="Taking released values at face value",
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
    knows="the distribution of every attribute",
    does="draws an interval of p % of the records, p = 1 … 10, around each released value",
    wins="when the original lies in it",
    source="Mateo-Sanz, Sebé and Domingo-Ferrer 2004",
    run=interval_disclosure,
)
RECONSTRUCTION = Attack(
    name="reconstruction",
    title="Reconstruction by one who knows all but one",
    knows="every other record, the method, and which released row is the target's",
    does="subtracts the known members of the target's cluster from its released mean and keeps "
    "the guess between the neighbouring clusters, or takes the released value as it is, whichever "
    "works better on the others",
    wins="when a number is recovered to within 1 % of the range, a label exactly",
    source="the adversary of differential privacy",
    run=reconstruction,
    whole=True,
)
CO_CLUSTER = Attack(
    name="co-cluster",
    title="Co-cluster test",
    knows="nothing but the release",
    does="claims that two rows with equal released cells were close in the original",
    wins="when their ranks differ by at most 1 % of the records",
    source="sherd",
    run=co_cluster,
)
