"""How many released records a person matches, in a release that hides which cells belong together.

Slices, buckets, fragments and generalised classes all publish tuples of values (or of ranges) in
groups. Somebody who knows a person looks for groups that hold all parts of them:

    m(t) = Σ_G |G| · Π_i n_i(t_i, G) / |G|,

where n_i(t_i, G) is how many of the group's tuples of part i fit the person. It is the expected
number of records equal to the person, over all ways to put the parts together again. Nothing here
is shared with the methods: tuples are compared one by one.

Notation: G a group, i a part (a column, a fragment), t a person.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.auditing.case.method_drawing import EMPTY, FragmentedRelease
from sherd.auditing.case.record_drawing import (
    BucketisedRelease,
    GeneralisedRelease,
    SlicedRelease,
)
from sherd.verifying.label_meaning import Labelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns
    from sherd.tables.number_scale import Scale

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]

AT_ONCE = 4_000_000
"""Pairs of a person and a released tuple, or group, that are compared at once."""


@dataclass(frozen=True, kw_only=True)
class TuplePart:
    """Tuples of some attributes in groups.

    ``labels`` are, for each attribute, which of its released labels every tuple has, and what
    each label stands for. ``groups`` names the group of every tuple.
    """

    labels: Mapping[str, tuple[Ints, Labelled]]
    groups: Ints


@dataclass(frozen=True, kw_only=True)
class TiedGroups:
    """Parts that the same groups tie together; ``named`` is the group of each part in every row.

    A row of ``named`` is a bucket, or a row of an association; ``weights`` how many records it
    stands for.
    """

    parts: tuple[TuplePart, ...]
    named: NDArray[np.int64]
    weights: Floats


@singledispatch
def groups_of(source: Any) -> TiedGroups | None:
    """The groups of a release; None where its records are given whole."""
    del source
    return None


def _part(
    table: pa.Table, fields: Mapping[str, str], groups: Ints, books: Any, kinds: Mapping[str, str]
) -> TuplePart:
    labels = {}
    for attribute, field in fields.items():
        cells = Labelled.of(table[field], books.get(attribute), kinds[attribute])
        labels[attribute] = (cells.of_row.astype(np.int64), cells)
    return TuplePart(labels=labels, groups=groups)


@groups_of.register
def _(source: SlicedRelease) -> TiedGroups:
    _, buckets = np.unique(source.table[source.bucket].to_numpy(), return_inverse=True)
    parts, asked = [], set()
    for column in source.columns:
        fields = {a: f for a, f in column.items() if a not in asked}
        asked |= set(fields)
        if fields:
            parts.append(_part(source.table, fields, buckets, source.books, source.kinds))
    sizes = np.bincount(buckets)
    named = np.repeat(np.arange(len(sizes))[:, None], len(parts), axis=1)
    return TiedGroups(parts=tuple(parts), named=named, weights=sizes.astype(np.float64))


@groups_of.register
def _(source: BucketisedRelease) -> TiedGroups:
    tied = groups_of(source.as_sliced())
    assert tied is not None
    return tied


@groups_of.register
def _(source: GeneralisedRelease) -> TiedGroups:
    """Every record is a group of its own: equal ones are counted together by their weight."""
    fields = {name: name for name in source.table.column_names if name in source.kinds}
    codes = [
        Labelled.of(source.table[n], source.books.get(n), source.kinds[n]).of_row for n in fields
    ]
    _, first, counts = np.unique(
        np.column_stack(codes), axis=0, return_index=True, return_counts=True
    )
    table = source.table.take(first)
    groups = np.arange(len(first))
    part = _part(table, fields, groups, source.books, source.kinds)
    return TiedGroups(parts=(part,), named=groups[:, None], weights=counts.astype(np.float64))


@groups_of.register
def _(source: FragmentedRelease) -> TiedGroups:
    parts, named = [], []
    for fragment, names, side in zip(
        source.layout.fragments, source.layout.attributes, source.sides, strict=True
    ):
        if side is None:
            continue  # no association speaks of it: it ties nothing to the rest
        kinds = dict.fromkeys(names, "")
        parts.append(_part(fragment, {n: n for n in names}, side[0], {}, kinds))
        named.append(side[1])
    return TiedGroups(
        parts=tuple(parts),
        named=np.column_stack(named) if named else np.zeros((0, 0), np.int64),
        weights=np.ones(source.rows),
    )


def matches(case: Case, people: Columns, groups: TiedGroups) -> Floats:
    """How many released records each person matches: m(t)."""
    n = len(next(iter(people.values())))
    tables = [_fits(case, people, part) for part in groups.parts]
    widest = max([len(groups.named), *(len(part.groups) for part in groups.parts), 1])
    step = max(1, AT_ONCE // widest)
    chances = np.zeros(n)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        product = np.broadcast_to(groups.weights, (min(step, n - start), len(groups.weights)))
        for number, (part, fits) in enumerate(zip(groups.parts, tables, strict=True)):
            product = product * _shares(part, fits, rows, groups.named[:, number])
        chances[rows] = product.sum(axis=1)
    return chances


def _shares(part: TuplePart, fits: Any, rows: slice, named: Ints) -> Floats:
    """For people and group rows: the share of the group's tuples that fit the person."""
    held: Any = None
    for codes, table in fits:
        one = table[rows][:, codes]
        held = one if held is None else held & one
    size = int(max(part.groups.max(), named.max())) + 1
    total = np.maximum(np.bincount(part.groups, minlength=size), 1)
    who, where = np.nonzero(held)
    flat = np.bincount(who * size + part.groups[where], minlength=held.shape[0] * size)
    shares = flat.reshape(held.shape[0], size) / total
    likely: Floats = np.where(named == EMPTY, 0.0, shares[:, named])
    return likely


def _fits(case: Case, people: Columns, part: TuplePart) -> list[tuple[Ints, NDArray[np.bool_]]]:
    """For each attribute the label of every tuple, and which labels hold a person's value."""
    return [
        (codes, _held(case.scales[name], people[name], cells))
        for name, (codes, cells) in part.labels.items()
        if name in people
    ]


def _held(scale: Scale, values: Floats, cells: Labelled) -> NDArray[np.bool_]:
    """Which labels of a column hold which of some values; a missing cell fits a missing value."""
    rank = {label: float(i) for i, label in enumerate(scale.labels or ())}
    ends = np.full((2, len(cells.meanings)), np.nan)
    lists = []
    for place, one in enumerate(cells.meanings):
        if one.low is not None:
            ends[:, place] = _number(one.low, rank), _number(one.high, rank)
        elif len(one.values) == 1:
            ends[:, place] = _number(one.values[0], rank)
        else:
            lists.append((place, [_number(value, rank) for value in one.values]))
    # Labels without ends stand for missing cells; those with lists are filled in below.
    held: NDArray[np.bool_] = (values[:, None] >= ends[0]) & (values[:, None] <= ends[1])
    held |= np.isnan(values)[:, None] & np.isnan(ends[0])
    for place, listed in lists:
        held[:, place] = np.isin(values, listed) | (np.isnan(values) & np.isnan(listed).any())
    return held


def _number(value: Any, rank: Mapping[str, float]) -> float:
    """A value on the audit's scale: labels by rank, dates in days, times in seconds."""
    if value is None:
        return float("nan")
    if rank:
        return rank.get(str(value), -1.0)
    if isinstance(value, datetime):
        return (value.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds()
    if isinstance(value, date):
        return float((value - date(1970, 1, 1)).days)
    return float(value)
