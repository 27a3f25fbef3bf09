"""Groups of about l rows that differ in several sensitive attributes at once, or in sets of values.

A row's *leading* value is the most frequent of its values. Rows in Mondrian's order are first put
into groups of l different leading values (``local_groups``); that is always possible where no
value fills more than 1/l of the rows, and leading values are the hardest to place. In its other
values a group may then have two rows alike. Such a row changes places with one of the same
leading value that lies near, if that leaves fewer rows alike in the two groups: the leading values
of both stay as they are. A few rounds of it settle nearly everything; what is left over is put
together with groups beside it until no value is too frequent (``condition_kernels.merged``).

``regrouped`` puts the rows of every bucket into groups of about l, each bucket by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.compiled import compiled
from sherd.methods.slicing.condition_kernels import SHARE, merged
from sherd.methods.slicing.local_grouping import listed, local_groups

if TYPE_CHECKING:
    from sherd.methods.slicing.tuple_partitioning import Ints, Longs


# ruff: noqa: E741 - l is the field's own name for it


TRIES = 200
"""Rows that are tried for an exchange, nearest first."""

FARTHER = 6
"""The distance to the next row that is tried grows by this part of it."""

ROUNDS = 8
"""How often all rows that are alike look for an exchange."""


@compiled
def leading(values: Ints, n_values: int) -> Ints:
    """The most frequent of every row's values."""
    counts = np.zeros(n_values, dtype=np.int64)
    for i in range(values.shape[0]):
        for c in range(values.shape[1]):
            if values[i, c] >= 0:
                counts[values[i, c]] += 1
    leaders = np.zeros(values.shape[0], dtype=np.int32)
    for i in range(values.shape[0]):
        most = -1
        for c in range(values.shape[1]):
            value = values[i, c]
            if value >= 0 and counts[value] > most:
                most = counts[value]
                leaders[i] = value
    return leaders


@compiled
def alike(values: Ints, row: int, members: Longs, size: int, but: int) -> int:
    """How many values a row shares with the members of a group, ``but`` left aside."""
    shared = 0
    for m in range(size):
        other = members[m]
        if other == but:
            continue
        for c in range(values.shape[1]):
            for d in range(values.shape[1]):
                if values[row, c] >= 0 and values[row, c] == values[other, d]:
                    shared += 1
    return shared


@compiled
def swap(row: int, other: int, group: Longs, members: Longs) -> None:
    """Let two rows change groups."""
    g = group[row]
    h = group[other]
    for m in range(members.shape[1]):
        if members[g, m] == row:
            members[g, m] = other
            break
    for m in range(members.shape[1]):
        if members[h, m] == other:
            members[h, m] = row
            break
    group[row] = h
    group[other] = g


@compiled
def exchanged(
    values: Ints, row: int, first: Longs, lead: Ints, rows: Longs, places: Longs, group: Longs,
    members: Longs, size: Longs,
) -> bool:  # fmt: skip
    """Let a row change places with the best row of the same leading value near it, if any helps."""
    g = group[row]
    mine = alike(values, row, members[g], size[g], row)
    if mine == 0:
        return False
    begin = first[lead[row]]
    end = first[lead[row] + 1]
    best = -1
    least = 0
    away = 0
    for step in range(TRIES):
        if step % 2 == 0:
            away += 1 + away // FARTHER
        place = places[row] + (away if step % 2 else -away)
        if place < begin or place >= end:
            continue
        other = rows[place]
        h = group[other]
        if h == g:
            continue
        after = alike(values, other, members[g], size[g], row)
        after += alike(values, row, members[h], size[h], other)
        change = after - mine - alike(values, other, members[h], size[h], other)
        if change < least:
            least = change
            best = other
            if after == 0:
                break
    if best < 0:
        return False
    swap(row, best, group, members)
    return True


@compiled
def joint_groups(values: Ints, n_values: int, l: int) -> Longs:
    """The group of every row, so that no value fills more than 1/l of the rows of a group."""
    n = values.shape[0]
    lead = leading(values, n_values)
    group = local_groups(lead, n_values, l)
    n_groups = group.max() + 1
    size = np.bincount(group, minlength=n_groups)
    members = np.full((n_groups, size.max()), -1, dtype=np.int64)
    filled = np.zeros(n_groups, dtype=np.int64)
    for i in range(n):
        members[group[i], filled[group[i]]] = i
        filled[group[i]] += 1
    first, rows = listed(lead, n_values)
    places = np.empty(n, dtype=np.int64)
    for place in range(n):
        places[rows[place]] = place
    if n_groups > 1:
        for _ in range(ROUNDS):
            moved = 0
            for i in range(n):
                if exchanged(values, i, first, lead, rows, places, group, members, size):
                    moved += 1
            if moved == 0:
                break
    limits = np.full(8, -1.0)
    limits[SHARE] = 1.0 / l
    heads = np.array([0, n_values], dtype=np.int64)
    nothing = np.zeros(n, dtype=np.int64)
    return merged(nothing, group, values, heads, np.ones(n_values), limits)


# ruff: noqa: C901, E741 - a compiled loop is one piece; l is the field's own name


@compiled
def regrouped(
    rows: Ints, n_dims: int, starts: Longs, n_values: int, sensitive: Ints, l: int
) -> tuple[Longs, int]:
    """The group of every row: each bucket regrouped, each q in a bucket by itself.

    ``sensitive`` holds the sensitive codes of the rows, in the order of ``rows``; all attributes
    have one numbering, and a place without a value is −1.
    """
    n = rows.shape[0]
    result = np.empty(n, dtype=np.int64)
    n_groups = 0
    # Codes are made local to what is regrouped: a bucket knows few of many values.
    local = np.full(n_values, -1, dtype=np.int64)
    for b in range(len(starts)):
        lo = starts[b]
        hi = starts[b + 1] if b + 1 < len(starts) else n
        by_q = np.argsort(rows[lo:hi, n_dims], kind="mergesort")
        begin = 0
        while begin < hi - lo:
            q = rows[lo + by_q[begin], n_dims]
            end = begin
            while end < hi - lo and rows[lo + by_q[end], n_dims] == q:
                end += 1
            inside = np.full((end - begin, sensitive.shape[1]), -1, dtype=np.int32)
            known = 0
            for i in range(begin, end):
                for c in range(sensitive.shape[1]):
                    value = sensitive[lo + by_q[i], c]
                    if value < 0:
                        continue
                    if local[value] < 0:
                        local[value] = known
                        known += 1
                    inside[i - begin, c] = local[value]
            for i in range(begin, end):
                for c in range(sensitive.shape[1]):
                    if sensitive[lo + by_q[i], c] >= 0:
                        local[sensitive[lo + by_q[i], c]] = -1
            if sensitive.shape[1] > 1:
                group = joint_groups(inside, known, l)
            else:
                group = local_groups(inside[:, 0].copy(), known, l)
            for i in range(begin, end):
                result[lo + by_q[i]] = n_groups + group[i - begin]
            n_groups += group.max() + 1
            begin = end
    return result, n_groups
