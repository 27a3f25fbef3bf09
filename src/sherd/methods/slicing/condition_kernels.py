# ruff: noqa: C901 - a compiled loop is one piece
"""Whether groups of rows meet conditions on their sensitive values, and merging those that do not.

Notation: P is the distribution of a sensitive attribute in a group, Q the one in the whole
table; r_1 ≥ r_2 ≥ … are the counts of P's values.

Every condition here is *convex*: where two groups meet it, so does their union, and so does any
mixture of their distributions. ``group_conditions`` says why, and what each number limits.

Rows are given by the codes of their sensitive values, one numbering for all attributes:
``heads[a]`` to ``heads[a + 1]`` are those of attribute a. A row whose attribute is a set has
several; a place without a value is −1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.compiled import compiled

if TYPE_CHECKING:
    from sherd.methods.slicing.tuple_partitioning import Floats, Ints, Longs

SHARE, SIZE, ENTROPY, RECURSIVE_C, RECURSIVE_L, CLOSENESS, ORDERED, LIKENESS = range(8)
"""Where each limit stands; one below 0 is not asked for."""

SLACK = 1e-9
"""How far a sum may be off by rounding."""


@compiled
def recursive(counts: Longs, c: float, l: int) -> bool:  # noqa: E741 - the field's name
    """Whether r_1 < c (r_l + … + r_m)."""
    ordered = np.sort(counts)
    tail = 0
    for place in range(len(ordered) - l + 1):
        tail += ordered[place]
    return bool(ordered[-1] < c * tail - SLACK)


@compiled
def distances(counts: Longs, total: int, overall: Floats) -> tuple[float, float]:
    """How far P is from Q: equal distance and ordered distance.

    Values that occur nowhere in the table have no place in the order.
    """
    apart = 0.0
    ahead = 0.0
    moved = 0.0
    places = 0
    for v in range(len(counts)):
        if overall[v] == 0.0:
            continue
        gap = counts[v] / total - overall[v]
        apart += abs(gap)
        ahead += gap
        moved += abs(ahead)
        places += 1
    return apart / 2, moved / max(places - 1, 1)


@compiled
def meets(counts: Longs, total: int, overall: Floats, limits: Floats) -> bool:
    """Whether a group of ``total`` rows with these counts of one attribute meets every limit."""
    if limits[SIZE] >= 0 and total < limits[SIZE]:
        return False
    largest = 0
    entropy = 0.0
    for v in range(len(counts)):
        if counts[v] == 0:
            continue
        largest = max(largest, counts[v])
        share = counts[v] / total
        if limits[ENTROPY] >= 0:
            entropy -= share * np.log(share)
        if limits[LIKENESS] >= 0:
            # A value of share q may gain β q, but never more than −q ln q.
            gain = min(limits[LIKENESS], -np.log(overall[v]))
            if share > overall[v] * (1 + gain) + SLACK:
                return False
    if limits[SHARE] >= 0 and largest > limits[SHARE] * total + SLACK:
        return False
    if limits[ENTROPY] >= 0 and entropy < np.log(limits[ENTROPY]) - SLACK:
        return False
    if limits[RECURSIVE_C] >= 0 and not recursive(
        counts, limits[RECURSIVE_C], int(limits[RECURSIVE_L])
    ):
        return False
    if limits[CLOSENESS] >= 0 or limits[ORDERED] >= 0:
        equal, ordered = distances(counts, total, overall)
        if limits[CLOSENESS] >= 0 and equal > limits[CLOSENESS] + SLACK:
            return False
        if limits[ORDERED] >= 0 and ordered > limits[ORDERED] + SLACK:
            return False
    return True


@compiled
def count(values: Ints, row: int, counts: Longs, step: int) -> None:
    """Add a row's values to the counts, or take them away."""
    for c in range(values.shape[1]):
        if values[row, c] >= 0:
            counts[values[row, c]] += step


@compiled
def all_meet(counts: Longs, total: int, heads: Longs, overall: Floats, limits: Floats) -> bool:
    """Whether a group meets every limit in every attribute."""
    for a in range(len(heads) - 1):
        lo = heads[a]
        hi = heads[a + 1]
        if not meets(counts[lo:hi], total, overall[lo:hi], limits):
            return False
    return True


@compiled
def by_place(places: Longs) -> Longs:
    """The rows in the order of their places, counted rather than sorted where few are empty."""
    n = len(places)
    room = places.max() + 1 if n else 0
    if room > 4 * n + 1024:
        return np.argsort(places, kind="mergesort")
    start = np.zeros(room + 1, dtype=np.int64)
    for place in places:
        start[place + 1] += 1
    for place in range(room):
        start[place + 1] += start[place]
    order = np.empty(n, dtype=np.int64)
    for row in range(n):
        order[start[places[row]]] = row
        start[places[row]] += 1
    return order


@compiled
def unmet(places: Longs, values: Ints, heads: Longs, overall: Floats, limits: Floats) -> int:
    """How many of the places, each a group of rows, do not meet the limits."""
    order = by_place(places)
    counts = np.zeros(heads[-1], dtype=np.int64)
    failing = 0
    begin = 0
    n = len(order)
    while begin < n:
        end = begin
        while end < n and places[order[end]] == places[order[begin]]:
            count(values, order[end], counts, 1)
            end += 1
        if not all_meet(counts, end - begin, heads, overall, limits):
            failing += 1
        for place in range(begin, end):
            count(values, order[place], counts, -1)
        begin = end
    return failing


@compiled
def halves_meet(
    rows: Ints, ids: Longs, lo: int, hi: int, n_dims: int, d: int, cut: int, ties: int,
    values: Ints, heads: Longs, overall: Floats, limits: Floats,
) -> bool:  # fmt: skip
    """Whether both halves of a split would meet the limits, the rows of each q by themselves.

    ``values`` are the sensitive codes of the table's rows, which ``ids`` names.
    """
    inside = np.empty((hi - lo, values.shape[1]), dtype=np.int32)
    places = np.empty(hi - lo, dtype=np.int64)
    waiting = ties
    for i in range(lo, hi):
        code = rows[i, d]
        goes_left = code < cut
        if code == cut and waiting > 0:
            waiting -= 1
            goes_left = True
        places[i - lo] = 2 * rows[i, n_dims] + goes_left
        inside[i - lo] = values[ids[i]]
    return bool(unmet(places, inside, heads, overall, limits) == 0)


@compiled
def merged(
    parents: Longs, groups: Longs, values: Ints, heads: Longs, overall: Floats, limits: Floats
) -> Longs:
    """Groups put together, neighbours by number, until each meets the limits.

    Groups of different ``parents`` stay apart, and each parent as a whole meets the limits. A
    group that meets them by itself stays as it is, unless the one before it needs it.
    """
    n = len(groups)
    order = by_place(groups)
    counts = np.zeros(heads[-1], dtype=np.int64)
    starts = [0]
    starts.pop()
    begin = 0
    first = 0  # the place in ``starts`` of the parent's first group
    for end in range(1, n + 1):
        row = order[end - 1]
        count(values, row, counts, 1)
        if end < n and groups[order[end]] == groups[row]:
            continue
        last = end == n or parents[order[end]] != parents[row]
        good = all_meet(counts, end - begin, heads, overall, limits)
        while last and not good and len(starts) > first:
            before = starts.pop()
            for place in range(before, begin):
                count(values, order[place], counts, 1)
            begin = before
            good = all_meet(counts, end - begin, heads, overall, limits)
        if good or last:
            for place in range(begin, end):
                count(values, order[place], counts, -1)
            starts.append(begin)
            begin = end
        if last:
            first = len(starts)
    result = np.empty(n, dtype=np.int64)
    for g in range(len(starts)):
        stop = starts[g + 1] if g + 1 < len(starts) else n
        for place in range(starts[g], stop):
            result[order[place]] = g
    return result
