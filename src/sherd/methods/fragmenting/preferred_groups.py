"""Where every tuple would best go: step 1 of placing tuples into groups.

A tuple's *home* in a fragment is the group it would join if no constraint were in the way, and
tuples are placed in an order of their own. ``Ordered`` is the published way, ``PreferredCells`` is
ours.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

import numpy as np

from sherd.methods.fragmenting.tuple_codes import positions
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa

    from sherd.methods.fragmenting.constraints import AskedTogether, Constraints
    from sherd.randomness import Randomness
    from sherd.tables.schema import Attribute, Schema

    Ints = npt.NDArray[np.int64]

_LEVELS = 256
_FEW = 32
_LEAST_CELL = 50
_LARGE_TABLE = 20_000
_STRETCH = 1 << 12
_LARGE_CELL = 1 << 12
_TIERS = (0.25, 0.5, 0.75, 0.875, 0.9375)
_LABELS = (Type.CATEGORY, Type.TEXT, Type.BOOLEAN)


class Homes(Protocol):
    """A way to find homes, to be asked once for every attempt."""

    def draw(self, randomness: Randomness) -> tuple[Ints, Ints]:
        """The home of every tuple in every fragment, and the order tuples are placed in."""
        ...


class Ordered:
    """Fragments ordered by the attributes to be kept similar and cut; tuples as they come."""

    def __init__(
        self,
        table: pa.Table,
        schema: Schema,
        shape: Any,
        fragments: Sequence[Sequence[str]],
        wished: Sequence[str],
    ) -> None:
        self._shape = shape
        self._ranks = [
            [positions(table, schema[name]) for name in wished if name in names]
            for names in fragments
        ]

    def draw(self, randomness: Randomness) -> tuple[Ints, Ints]:
        """Ties are left as they fall."""
        rows = self._shape.codes.shape[0]
        orders = []
        for ranks in self._ranks:
            order = randomness.permutation(rows)
            for rank in reversed(ranks):
                order = order[np.argsort(rank[order], kind="stable")]
            orders.append(order)
        return _cut(orders, self._shape), randomness.permutation(rows)


class PreferredCells:
    """Fragments split into cells of alike tuples; frequent values are placed first."""

    def __init__(
        self,
        table: pa.Table,
        schema: Schema,
        shape: Any,
        fragments: Sequence[Sequence[str]],
        constraints: Constraints,
        similar: Sequence[str],
    ) -> None:
        self._shape = shape
        self._fragments = fragments
        self._wishes = [constraints.wishes(similar, names) for names in fragments]
        named = dict.fromkeys(name for wishes in self._wishes for name in _attributes(wishes))
        self._scales = {
            name: LevelScale.of(table, schema[name], similar=name in similar) for name in named
        }
        # frequent values are hardest to place, so they come while there is most room
        self._share = np.zeros(table.num_rows)
        for codes in shape.codes.T:
            self._share += np.bincount(codes)[codes]
        if table.num_rows > _LARGE_TABLE:
            ends = np.quantile(self._share, _TIERS)
            self._share = sum(
                (self._share > end for end in ends), np.zeros(len(self._share), np.int8)
            )

    def draw(self, randomness: Randomness) -> tuple[Ints, Ints]:
        """Within a cell, and among tuples of equally frequent values, chance decides."""
        rows = len(self._share)
        orders: list[Ints] = []
        for f, wishes in enumerate(self._wishes):
            order = np.ascontiguousarray(randomness.permutation(rows), np.int64)
            starts = self._split(order, f, wishes)
            if orders and rows > _LARGE_TABLE:
                _keep_near(order, starts, orders[0])
            orders.append(order)
        homes = _cut(orders, self._shape)
        if rows > _LARGE_TABLE:
            # tier by tier; within one by home, so that what is placed next is near in memory
            tiers = self._share[orders[0]]
            by_tier = [orders[0][tiers == tier] for tier in range(len(_TIERS), -1, -1)]
            return homes, np.concatenate(by_tier)
        order = randomness.permutation(rows)
        return homes, order[np.argsort(-self._share[order], kind="stable")]

    def _split(self, order: Ints, f: int, wishes: Sequence[AskedTogether]) -> Ints:
        """Reorder ``order`` into cells; where each of them begins."""
        from sherd.methods.fragmenting.tuple_cells import split

        names, held = _attributes(wishes), self._fragments[f]
        if not names:
            return np.zeros(1, np.int64)
        scales = [self._scales[name] for name in names]
        shape, size = self._shape, int(self._shape.sizes[f])
        own = list(range(shape.aspects_from[f], shape.aspects_from[f + 1]))
        others = [int(a) for a in shape.reach_aspect[shape.reach_source == f]]
        beside = shape.sizes[shape.aspect_fragment[others]]
        starts: Ints = split(
            order,
            np.stack([scale.levels for scale in scales]),
            np.asarray([scale.distinct for scale in scales], np.int64),
            np.stack([scale.scores for scale in scales]),
            np.asarray([scale.nominal for scale in scales], np.bool_),
            np.asarray([[name in wish.attributes for name in names] for wish in wishes], np.bool_),
            np.asarray([wish.weight for wish in wishes], np.float64),
            np.ascontiguousarray(shape.codes[:, own + others].T),
            np.concatenate([np.full(len(own), float(size)), size * beside.astype(np.float64)]),
            np.asarray([len(own) + (name not in held) * len(others) for name in names], np.int64),
            max(_LEAST_CELL, 4 * size),
        )
        return starts


@dataclass(frozen=True, kw_only=True)
class LevelScale:
    """An attribute as at most 256 levels and where each lies between the least and greatest."""

    levels: npt.NDArray[np.uint8]
    distinct: int
    scores: npt.NDArray[np.float64]
    nominal: bool

    @classmethod
    def of(cls, table: pa.Table, attribute: Attribute, *, similar: bool) -> Self:
        """A column's scale: its values, or its quantiles where there are too many."""
        rank = positions(table, attribute)
        rows = len(rank)
        counts = np.bincount(rank)
        before = np.cumsum(counts) - counts
        scores = np.zeros(_LEVELS)
        if len(counts) > _LEVELS:
            # a level is a run of values that starts in the same part of the order
            levels = (before * _LEVELS // max(1, rows)).astype(np.uint8)[rank]
            distinct = _LEVELS
            scores[:] = (np.arange(_LEVELS) + 0.5) / _LEVELS
        else:
            levels = rank.astype(np.uint8)
            distinct = len(counts)
            scores[:distinct] = (before + counts / 2) / max(1, rows)
        nominal = attribute.type in _LABELS or (similar and len(counts) <= _FEW)
        return cls(levels=levels, distinct=distinct, scores=scores, nominal=nominal)


def _attributes(wishes: Sequence[AskedTogether]) -> list[str]:
    return list(dict.fromkeys(name for wish in wishes for name in wish.attributes))


def _keep_near(order: Ints, starts: Ints, first: Ints) -> None:
    """Reorder large cells by stretches of the first fragment's order; small ones stay as they are.

    Tuples near in one fragment are then near in all, and fast memory holds what is near. Every
    group of a cell is as good as any other, so utility does not change; stretches go after cells,
    since cells made within stretches would be alike in what the first fragment wants.
    """
    rows = len(order)
    stretch = np.empty(rows, np.int16)
    stretch[first] = np.arange(rows) // max(_STRETCH, rows >> 14)
    for low, high in itertools.pairwise([*starts.tolist(), rows]):
        if high - low > _LARGE_CELL:
            cell = order[low:high]
            order[low:high] = cell[np.argsort(stretch[cell], kind="stable")]


def _cut(orders: Sequence[Ints], shape: Any) -> Ints:
    """Orders cut into as many groups as a fragment has."""
    rows = shape.codes.shape[0]
    homes = np.empty((len(orders), rows), np.int64)
    for f, order in enumerate(orders):
        homes[f, order] = np.arange(rows) * int(shape.groups[f]) // max(1, rows)
    return homes
