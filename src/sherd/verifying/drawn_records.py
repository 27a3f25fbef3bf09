"""Re-checking records drawn from a model: every combination as often as the model says.

Records are drawn clique by clique: those that agree in what a clique shares with the attributes
drawn before are a group, and each combination of the others is taken by the group's size times its
probability, rounded up or down; so is each cell within its bin. Nothing but rounding is left to
chance in the counts, and records that were not drawn from the model, such as the original's or a
column of it, do not have them.

Cliques come from eliminating attributes, always the one whose clique has the fewest cells. The
largest is taken first, then always the one that shares most with one taken before.

``marginal`` sums a product of small tables by eliminating attributes one after the other. It is
written for checking: no tree, no messages, every marginal worked out by itself. Tables hold
logarithms: products of many factors would leave the range of floating point.

>>> half = np.log([0.5, 0.5])
>>> equal = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
>>> marginal([((0,), half), ((0, 1), equal)], (2, 2), (1,)).tolist()
[0.5, 0.5]
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.int64]
    Factor = tuple[tuple[int, ...], NDArray[np.float64]]


SLACK = 1e-3
"""How far beyond rounding a count may be."""

PRECISION = 1e-6
"""How precisely probabilities follow from the stated factors, as a share of a group."""

LEAST = 1e-250
"""The share below which a group holds records by rounding only, which take anything."""


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How a model's records are drawn, and counts of drawn ones.

    ``steps`` are the attributes of each clique that were drawn before, and those that were not.
    """

    factors: Sequence[Factor]
    sizes: Sequence[int]
    steps: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    counts: tuple[Codes, ...]

    @classmethod
    def of(cls, factors: Sequence[Factor], sizes: Sequence[int]) -> Drawing:
        """The drawing of a model, nothing counted yet."""
        drawn: set[int] = set()
        steps = []
        for clique in _ordered(_cliques([scope for scope, _ in factors], sizes)):
            kept = tuple(a for a in clique if a in drawn)
            steps.append((kept, tuple(a for a in clique if a not in drawn)))
            drawn |= set(clique)
        cells = [math.prod(sizes[a] for a in (*kept, *new)) for kept, new in steps]
        counts = tuple(np.zeros(many, np.int64) for many in cells)
        return cls(factors=factors, sizes=sizes, steps=tuple(steps), counts=counts)

    def count(self, binned: Sequence[Codes]) -> None:
        """Count some drawn records, given the bin of each attribute."""
        for (kept, new), counts in zip(self.steps, self.counts, strict=True):
            index = np.zeros(len(binned[0]), np.int64)
            for a in (*kept, *new):
                index = index * self.sizes[a] + binned[a]
            np.add(counts, np.bincount(index, minlength=len(counts)), out=counts)

    def beyond_rounding(self) -> float:
        """How far the counts are from the model's at most, beyond rounding."""
        worst = 0.0
        for (kept, new), counts in zip(self.steps, self.counts, strict=True):
            shape = [math.prod(self.sizes[a] for a in part) for part in (kept, new)]
            shares = marginal(self.factors, self.sizes, (*kept, *new)).reshape(shape)
            worst = max(worst, _apart(counts.reshape(shape), shares))
        return worst


def beyond_spread(counts: Codes, bins: Codes, within: NDArray[np.float64]) -> float:
    """How far the counts of drawn cells are from what their bins spread over them, at most."""
    whole = np.bincount(bins, counts)[bins]
    return float((np.abs(counts - whole * within) - 1 - PRECISION * whole).max())


def _apart(counts: NDArray[np.int64], shares: NDArray[np.float64]) -> float:
    """The largest distance of a group's counts from its size times a share, beyond rounding."""
    group = shares.sum(axis=1, keepdims=True)
    known = group[:, 0] > LEAST
    if not known.any():
        return 0.0
    size = counts[known].sum(axis=1, keepdims=True)
    expected = size * shares[known] / group[known]
    return float((np.abs(counts[known] - expected) - 1 - PRECISION * size).max())


def _cliques(scopes: Iterable[tuple[int, ...]], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """The largest sets of attributes that elimination joins.

    >>> _cliques([(0, 1), (1, 2), (0, 2), (2, 3)], (2, 3, 4, 5))
    [(0, 1, 2), (2, 3)]
    """
    joined: dict[int, set[int]] = {a: {a} for a in range(len(sizes))}
    for scope in scopes:
        for a in scope:
            joined[a] |= set(scope)
    cliques: list[set[int]] = []
    while joined:
        a = min(joined, key=lambda v: (math.prod(sizes[b] for b in joined[v]), v))
        clique = joined.pop(a)
        if not any(clique <= other for other in cliques):
            cliques.append(clique)
        for b in clique - {a}:
            joined[b] = (joined[b] | clique) - {a}
    return sorted(tuple(sorted(clique)) for clique in cliques)


def _ordered(cliques: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """The largest first, then always one that shares most with a single one before it."""
    first, *left = sorted(cliques, key=lambda c: (-len(c), c))
    taken = [first]
    while left:
        best = max(
            left,
            key=lambda c: (max(len(set(c) & set(t)) for t in taken), [-a for a in c]),
        )
        left.remove(best)
        taken.append(best)
    return taken


MOST_CELLS = 20_000_000
"""Cells of an intermediate table above which a model is refused as no model of ours."""


def marginal(
    factors: Sequence[Factor], sizes: Sequence[int], wanted: tuple[int, ...]
) -> NDArray[np.float64]:
    """The normalised marginal over some attributes of the product of factors, in logarithms."""
    left = list(factors)
    rest = set(range(len(sizes))) - set(wanted)
    while rest:
        attribute = min(rest, key=lambda a: (_cells(left, a, sizes), a))
        rest.remove(attribute)
        near = [one for one in left if attribute in one[0]]
        left = [one for one in left if attribute not in one[0]]
        if not near:
            continue
        names, table = _multiplied(near, sizes)
        summed = np.logaddexp.reduce(table, axis=names.index(attribute))
        left.append((tuple(a for a in names if a != attribute), summed))
    names, table = _multiplied([*left, (wanted, np.zeros([sizes[a] for a in wanted]))], sizes)
    assert set(names) == set(wanted)
    table = np.moveaxis(table, [names.index(a) for a in wanted], range(len(wanted)))
    if not np.isfinite(table.max()):
        raise ValueError("the model has no share that is above 0")
    shares = np.exp(table - table.max())
    return np.asarray(shares / shares.sum())


def _scope(factors: Sequence[Factor]) -> tuple[int, ...]:
    return tuple(sorted({a for names, _ in factors for a in names}))


def _cells(factors: Sequence[Factor], attribute: int, sizes: Sequence[int]) -> int:
    return math.prod(sizes[a] for a in _scope([one for one in factors if attribute in one[0]]))


def _multiplied(
    factors: Sequence[Factor], sizes: Sequence[int]
) -> tuple[tuple[int, ...], NDArray[np.float64]]:
    names = _scope(factors)
    if math.prod(sizes[a] for a in names) > MOST_CELLS:
        raise ValueError("the model is larger than any that is released")
    product = np.zeros([sizes[a] for a in names])
    for own, table in factors:
        ordered = np.transpose(table, np.argsort(own))
        product += ordered.reshape([sizes[a] if a in own else 1 for a in names])
    return names, product
