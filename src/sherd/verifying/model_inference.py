"""The marginals of a product of small tables, by eliminating attributes one after the other.

Written for checking: no tree, no messages, every marginal worked out by itself. Tables hold
logarithms: products of many factors would leave the range of floating point.

>>> half = np.log([0.5, 0.5])
>>> equal = np.array([[0.0, -np.inf], [-np.inf, 0.0]])
>>> marginal([((0,), half), ((0, 1), equal)], (2, 2), (1,)).tolist()
[0.5, 0.5]
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Factor = tuple[tuple[int, ...], NDArray[np.float64]]

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
