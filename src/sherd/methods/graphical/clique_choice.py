"""Which marginals a model is made of: everything about the choice that needs no data.

``candidates`` lists what could be measured: every pair of attributes, or every triple with the
class. ``affordable`` keeps, of marginals that were measured, those that fit into a junction tree
of bounded size, the most telling first.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.graphical.junction_tree import Clique, eliminate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Shares = NDArray[np.float64]

MOST_CELLS = 60_000
"""Cells of a model's junction tree: half a megabyte a table, a second or two of fitting."""


def candidates(attributes: int, target: int | None) -> list[Clique]:
    """Every pair of attributes, or every triple with the class; the pair where there are two.

    >>> candidates(3, None), candidates(4, 3)
    ([(0, 1), (0, 2), (1, 2)], [(0, 1, 3), (0, 2, 3), (1, 2, 3)])
    >>> candidates(2, 1), candidates(1, None)
    ([(0, 1)], [])
    """
    free = [a for a in range(attributes) if a != target]
    if target is not None and len(free) < 2:
        return [tuple(sorted((a, target))) for a in free]
    ends = () if target is None else (target,)
    return [tuple(sorted((*pair, *ends))) for pair in itertools.combinations(free, 2)]


def joins(groups: dict[int, int], clique: Clique, target: int | None) -> bool:
    """Whether a pair, or a triple with the class, connects what is not connected yet."""
    ends = [a for a in clique if a != target]
    return len({groups[a] for a in ends}) == len(ends)


def join(groups: dict[int, int], clique: Clique, target: int | None) -> None:
    """Note that a clique connects its attributes."""
    ends = [a for a in clique if a != target]
    old = {groups[a] for a in ends}
    for a, group in groups.items():
        if group in old:
            groups[a] = groups[ends[0]]


def tree_cells(cliques: Iterable[Clique], sizes: Sequence[int]) -> int:
    """How many cells the junction tree of a model with these cliques has."""
    return sum(math.prod(sizes[a] for a in one) for one in eliminate(cliques, sizes))


def product(shares: Sequence[Shares], clique: Clique) -> Shares:
    """The joint shares of independent attributes.

    >>> product([np.array([0.5, 0.5]), np.array([1.0, 0.0])], (0, 1)).tolist()
    [[0.5, 0.0], [0.5, 0.0]]
    """
    joint = np.ones(())
    for a in clique:
        joint = np.multiply.outer(joint, shares[a])
    return joint


def telling(counts: NDArray[np.int64], expected: Shares, variance: float) -> float:
    """How far noisy counts are from expected ones, in deviations of what noise alone does."""
    apart = float(np.square(counts - expected).sum()) - counts.size * variance
    return apart / (variance * math.sqrt(2 * counts.size))


def affordable(
    ranked: Iterable[tuple[float, Clique]],
    sizes: Sequence[int],
    always: Iterable[Clique] = (),
    most: int = MOST_CELLS,
) -> list[Clique]:
    """Of cliques with their worth, those that fit together, the most worth first."""
    kept: list[Clique] = []
    base = list(always)
    for _, clique in sorted(ranked, key=lambda one: (-one[0], one[1])):
        if tree_cells([*base, *kept, clique], sizes) <= most:
            kept.append(clique)
    return kept
