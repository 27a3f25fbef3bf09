"""Coarsening: fine cells merged into bins that stand out from the noise.

Everything here is computed from noisy counts, so it costs nothing. A marginal of many cells
drowns in noise: neighbouring cells of an ordered attribute are merged until their noisy count
reaches a wanted one, rare labels of the others share one bin. How a bin's records are spread
over its cells is estimated from the same noisy counts.

Cells that a public rule tells apart (``kinds``) never share a bin. Missing cells are released only
where their noisy count stands out from the noise.

Notation: y noisy counts of the fine cells, s their standard deviation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.methods.graphical.public_grid import PublicGrid

    Weights = NDArray[np.float64]

MOST_BINS = 64
"""Bins of one attribute, but for what rules tell apart."""

SIGNAL = 4.0
"""A bin's records in standard deviations of a cell's noise."""

LEAST_FACTOR = 0.25
"""How much of what labels' counts differ by is believed at least."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Binning:
    """The bin of every fine cell, and how a bin's records are spread over its cells."""

    bins: tuple[int, ...]
    within: Weights

    @property
    def size(self) -> int:
        """How many bins there are."""
        return max(self.bins) + 1


def nonnegative(y: NDArray[np.int64], total: float) -> Weights:
    """The nearest counts from 0 that add up to a total, in least squares.

    >>> nonnegative(np.array([10, -3, 2, 1]), 10.0).tolist()
    [9.0, 0.0, 1.0, 0.0]
    """
    down = np.sort(y)[::-1].astype(np.float64)
    excess = (np.cumsum(down) - total) / np.arange(1, down.size + 1)
    kept = int(np.flatnonzero(down - excess > 0)[-1])
    return np.asarray(np.maximum(y - excess[kept], 0.0))


def coarsen(
    y: NDArray[np.int64],
    deviation: float,
    grid: PublicGrid,
    *,
    rows: int,
    kinds: NDArray[np.int64],
    every: bool = False,
) -> Binning:
    """Bins that stand out from the noise; with ``every`` each cell stays by itself."""
    estimate = nonnegative(y, float(rows))
    signal = SIGNAL * deviation
    least = 0.0 if every else signal
    if every:
        groups = [[cell] for cell in range(grid.cells)]
    elif grid.ordered:
        groups = _neighbours(estimate[: grid.cells], max(least, rows / MOST_BINS), kinds)
    else:
        groups = _labels(estimate[: grid.cells], least, kinds)
    bins = np.empty(grid.size, np.int64)
    within = np.zeros(grid.size)
    for number, cells in enumerate(groups):
        bins[cells] = number
        within[cells] = _spread(y[cells], deviation, grid.ordered)
    if grid.keeps_missing:
        place = _home_of_missing(groups, kinds, stands_out=estimate[grid.cells] >= signal)
        bins[grid.cells] = place
        within[grid.cells] = float(place == len(groups))
    return Binning(bins=tuple(bins.tolist()), within=within)


def _home_of_missing(groups: list[list[int]], kinds: NDArray[np.int64], *, stands_out: bool) -> int:
    """The bin of missing cells: their own where they stand out from the noise.

    Otherwise it is the last bin of their kind, of which they get no share: what noise explains
    is no missing cell.
    """
    alike = [place for place, cells in enumerate(groups) if kinds[cells[0]] == kinds[-1]]
    return len(groups) if stands_out or not alike else alike[-1]


def _neighbours(estimate: Weights, least: float, kinds: NDArray[np.int64]) -> list[list[int]]:
    """Neighbouring cells of one kind, merged from the left until they hold enough."""
    groups: list[list[int]] = []
    held: list[float] = []
    for cell, count in enumerate(estimate):
        same = bool(groups) and kinds[cell] == kinds[groups[-1][0]]
        full = bool(groups) and (held[-1] >= least or (count >= least and held[-1] >= least / 2))
        if same and not full:
            groups[-1].append(cell)
            held[-1] += count
        else:
            groups.append([cell])
            held.append(float(count))
    if len(groups) > 1 and held[-1] < least / 2 and kinds[groups[-1][0]] == kinds[groups[-2][0]]:
        last = groups.pop()
        groups[-1] += last
    return groups


def _labels(estimate: Weights, least: float, kinds: NDArray[np.int64]) -> list[list[int]]:
    """A bin for each label that holds enough, one for all others of its kind."""
    groups: list[list[int]] = []
    for kind in np.unique(kinds[: len(estimate)]):
        cells = np.flatnonzero(kinds[: len(estimate)] == kind)
        down = cells[np.argsort(-estimate[cells], kind="stable")]
        large = [[int(c)] for c in down[:MOST_BINS] if estimate[c] >= least]
        rest = [int(c) for c in down[len(large) :]]
        if rest and large and estimate[rest].sum() < least / 4:
            large[-1] += rest
        elif rest:
            large.append(rest)
        groups += large
    return sorted([sorted(group) for group in groups])


def _spread(y: NDArray[np.int64], deviation: float, ordered: bool) -> Weights:
    """Shares of a bin's cells: noisy counts drawn towards their mean as far as noise explains.

    James and Stein's factor 1 − (m − 1)·s²/Σ(y − mean)², from 0 to 1.
    """
    if len(y) == 1:
        return np.ones(1)
    mean = float(y.mean())
    apart = y - mean
    square = float(apart @ apart)
    factor = max(0.0, 1 - (len(y) - 1) * deviation**2 / square) if square else 0.0
    if not ordered:
        factor = max(factor, LEAST_FACTOR)
    shares = np.maximum(mean + factor * apart, 0.0)
    total = float(shares.sum())
    return shares / total if total > 0 else np.full(len(y), 1 / len(y))
