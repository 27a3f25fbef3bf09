"""Random counting queries: what an analyst would ask, answered by the release.

Each query asks for a range or a few labels on two or three attributes at once, chosen around
a random original record so that it is true for about a tenth of all records. Slices and
fragments answer through their own ``count``; records are counted.
"""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.auditing.case.case import height, take
from sherd.auditing.case.method_drawing import FragmentedRelease
from sherd.auditing.case.record_drawing import CountQuery, Range, Values
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure, median_interval
from sherd.tables.schema import Type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.auditing.case.case import Case, Columns

SHARE = 0.1
"""The share of records that a query aims at."""

FLOOR = 0.01
"""Counts below this share of the records are not divided by: their error would explode."""

_SAMPLE = 50_000


def queries(case: Case) -> list[Measure]:
    """The median relative error of random counting queries."""
    rng = case.rng("queries")
    before = _thin(case.original, rng)
    n = height(before)
    asked = [_query(case, before, rng) for _ in range(case.limits.queries)]
    # Other kinds of release answer a query at a time, in a time that grows with their size.
    asked = asked if case.rows else asked[: max(30, len(asked) // 3)]
    after = _thin(case.released, rng)
    m = height(after)
    truth = np.array([_count(before, query) / n for query in asked])
    if case.rows:
        answers = np.array([_count(after, query) / m for query in asked])
    else:
        assert case.drawable is not None, "records are counted"
        answers = np.array([case.drawable.count(_counted(case, query)) for query in asked])
        answers /= case.table_rows
    blind = _blind(before, asked, n)
    tied = _worth_of_association(case, asked, truth, answers)
    errors = np.abs(answers - truth) / np.maximum(truth, FLOOR)
    low, high = median_interval(errors)
    sampled = n < case.n
    where = f"on {n:,} records at random" if sampled else f"on all {n:,} records"
    return [
        Measure(
            spec=CATALOGUE["queries"],
            value=float(np.median(errors)),
            low=low,
            high=high,
            basis=f"{len(asked)} random queries {where}",
            baseline=float(np.median(np.abs(blind - truth) / np.maximum(truth, FLOOR))),
            against="answers that treat attributes as independent",
            sampled=sampled,
        ),
        *tied,
    ]


def _worth_of_association(
    case: Case,
    asked: list[list[Condition]],
    truth: NDArray[np.float64],
    answers: NDArray[np.float64],
) -> list[Measure]:
    """What the association adds to its fragments: of queries over several, the error it saves."""
    if not isinstance(case.drawable, FragmentedRelease):
        return []
    whole = [set(names) for names in case.drawable.layout.attributes]
    named = [{condition[0] for condition in query} for query in asked]
    across = np.array([not any(names <= one for one in whole) for names in named])
    apart = replace(case.drawable, sides=(None,) * len(whole))
    some = [query for query, several in zip(asked, across, strict=True) if several]
    without = np.array([apart.count(_counted(case, query)) for query in some]) / case.table_rows
    missed = np.abs(answers[across] - truth[across]), np.abs(without - truth[across])
    if not some or not missed[1].sum():
        return []
    return [
        Measure(
            spec=CATALOGUE["association-utility"],
            value=float(1 - missed[0].mean() / missed[1].mean()),
            basis=f"{len(some)} random queries over several fragments",
            baseline=0.0,
            against="the fragments without the association",
        )
    ]


Condition = tuple[str, float, float] | tuple[str, frozenset[int]]


def _thin(columns: Columns, rng: np.random.Generator) -> Columns:
    n = height(columns)
    return columns if n <= _SAMPLE else take(columns, rng.choice(n, _SAMPLE, replace=False))


def _query(case: Case, before: Columns, rng: np.random.Generator) -> list[Condition]:
    ways = min(len(case.names), int(rng.integers(2, 4)))
    names = rng.choice(np.array(case.names), ways, replace=False)
    share = SHARE ** (1 / ways)
    centre = int(rng.integers(len(before[names[0]])))
    conditions: list[Condition] = []
    for name in (str(name) for name in names):
        values = before[name]
        at = values[centre]
        labels = case.scales[name].labels
        if labels is None:
            conditions.append((name, *_range(values, at, share, rng)))
        else:
            chosen = [] if np.isnan(at) else [int(at)]
            chosen += [int(i) for i in rng.permutation(len(labels)) if i not in chosen]
            counts = np.bincount(values[~np.isnan(values)].astype(np.int64), minlength=len(labels))
            covered = np.cumsum(counts[chosen]) / len(values)
            conditions.append((name, frozenset(chosen[: int(np.searchsorted(covered, share)) + 1])))
    return conditions


def _range(
    values: NDArray[np.float64], at: float, share: float, rng: np.random.Generator
) -> tuple[float, float]:
    present = values[~np.isnan(values)]
    if not present.size:
        return 0.0, 0.0
    some = np.sort(present if present.size < 5_000 else rng.choice(present, 5_000))
    place = np.searchsorted(some, at) / len(some) if not np.isnan(at) else rng.random()
    start = float(np.clip(place - share * rng.random(), 0, 1 - share))
    low, high = np.quantile(some, [start, start + share])
    return float(low), float(high)


def _holds(columns: Columns, condition: Condition) -> NDArray[np.bool_]:
    values = columns[condition[0]]
    if len(condition) == 3:
        return (values >= condition[1]) & (values <= condition[2])
    return np.isin(values, list(condition[1]))


def _count(columns: Columns, query: list[Condition]) -> int:
    held = _holds(columns, query[0])
    for condition in query[1:]:
        held &= _holds(columns, condition)
    return int(np.count_nonzero(held))


def _blind(columns: Columns, asked: list[list[Condition]], n: int) -> NDArray[np.float64]:
    """Answers by multiplying the shares of single conditions."""
    counts = [
        np.prod([np.count_nonzero(_holds(columns, one)) / n for one in query]) for query in asked
    ]
    return np.array(counts)


def _counted(case: Case, query: list[Condition]) -> CountQuery:
    """The query in the values of the release."""
    where: dict[str, Range | Values] = {}
    for condition in query:
        name = condition[0]
        if len(condition) == 3:
            low, high = condition[1], condition[2]
            if case.schema[name].type in (Type.INTEGER, Type.DATE):
                low, high = math.ceil(low), math.floor(high)
            where[name] = Range(low=_value(case, name, low), high=_value(case, name, high))
        else:
            labels = case.scales[name].labels or ()
            where[name] = Values(of=frozenset(labels[i] for i in condition[1]))
    return CountQuery(where=where)


def _value(case: Case, name: str, number: float) -> Any:
    """A number of a scale as the value it stands for."""
    kind = case.schema[name].type
    if kind is Type.DATE:
        return date(1970, 1, 1) + timedelta(days=round(number))
    if kind is Type.DATETIME:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=number)
    if kind is Type.BOOLEAN:
        return bool(number)
    return number
