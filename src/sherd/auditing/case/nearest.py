"""Nearest neighbours by brute force in blocks: exact, and its time does not depend on the data.

Trees are faster on clustered points and far slower on noisy ones in ten dimensions; a matrix
product in blocks takes the same time on both, and its memory stays in cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from sherd.auditing.case.case import Columns, Space

CELLS = 1 << 21
"""Distances held at once: 16 MB, however many points and candidates there are."""

TIE = 1e-9
"""Squared distances that differ by less are the same: above the rounding of the product."""


def _blocks(
    points: NDArray[np.float64], columns: Columns, space: Space
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    """Squared distances less the points' own squares, block by block of candidates."""
    n = len(columns[space.names[0]])
    left = _left(points)
    step = max(64, CELLS // max(1, len(points)))
    for start in range(0, n, step):
        yield start, left @ _right(columns, space, slice(start, start + step)).T


def _left(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """|p − c|² − |p|² = |c|² − 2 p·c is one product with a column more: the points' side of it."""
    return np.hstack([-2 * points, np.ones((len(points), 1))])


def _right(
    columns: Columns, space: Space, rows: slice, barred: NDArray[np.bool_] | None = None
) -> NDArray[np.float64]:
    """The candidates' side of the product; those that are barred are nowhere near."""
    block = space.points(columns, rows)
    squares = np.einsum("ij,ij->i", block, block)[:, None]
    if barred is not None:
        squares[barred[rows]] = np.inf
    return np.hstack([block, squares])


def nearest(
    points: NDArray[np.float64], columns: Columns, space: Space, k: int = 1
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The k least distances of each point to the candidates, and where, nearest first."""
    best = np.full((len(points), k), np.inf)
    where = np.zeros((len(points), k), np.int64)
    rows = np.arange(len(points))[:, None]
    for start, squared in _blocks(points, columns, space):
        some = min(k, squared.shape[1])
        local = (
            np.argpartition(squared, some - 1, axis=1)[:, :some]
            if some > 1
            else np.argmin(squared, axis=1)[:, None]
        )
        merged = np.hstack([best, squared[rows, local]])
        places = np.hstack([where, local + start])
        keep = np.argsort(merged, axis=1, kind="stable")[:, :k]
        best, where = merged[rows, keep], places[rows, keep]
    best += np.einsum("ij,ij->i", points, points)[:, None]
    # What is smaller than the product's rounding is the same point.
    return np.sqrt(np.where(best < TIE, 0.0, best)), where


def linked(
    points: NDArray[np.float64],
    columns: Columns,
    space: Space,
    truth: NDArray[np.int64],
    *,
    barred: NDArray[np.bool_] | None = None,
) -> NDArray[np.float64]:
    """Each point's chance that a nearest candidate, ties drawn by lot, is the true one.

    ``truth`` is the true candidate's row, ``barred`` marks candidates that are ruled out.
    """
    target = space.points(columns, truth)
    own = np.einsum("ij,ij->i", points - target, points - target)
    own = (own - np.einsum("ij,ij->i", points, points))[:, None]
    within = np.zeros(len(points), np.int64)
    left, alive, start = _left(points), np.arange(len(points)), 0
    n = len(columns[space.names[0]])
    while start < n and alive.size:
        # A point that somebody else is nearer to is lost: the rest of the candidates is spared it.
        rows = slice(start, start + max(64, CELLS // len(alive)))
        squared = left[alive] @ _right(columns, space, rows, barred).T
        lost = squared.min(axis=1, keepdims=True) < own[alive] - TIE
        within[alive] += np.count_nonzero(squared <= own[alive] + TIE, axis=1)
        within[alive[lost[:, 0]]] = 0
        alive, start = alive[~lost[:, 0]], rows.stop
    chance = np.zeros(len(points))
    chance[alive] = 1 / np.maximum(within[alive], 1)
    return chance
