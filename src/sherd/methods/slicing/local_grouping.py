# ruff: noqa: C901, E741 - a compiled loop is one piece; l is the field's own name
"""Grouping rows so that every group holds l different sensitive values.

``grouped`` is Anatomy's group creation (Xiao and Tao 2006): while l values are left, take
one row of each of the l most frequent; the rest, at most l − 1 rows of different values,
join groups that lack their value. It succeeds where no value fills more than 1/l of the
rows.

``local_groups`` is paper 003's tuple grouping, which wants groups of similar rows: rows come
in Mondrian's order, a group takes the first row left and the next ones of other values.
Let R rows be left. A value with more than (R − l)/l of them is critical: without it in the
next group, too many rows of it would be left for the groups to come. At most l values are
critical while R ≥ l(l + 1), so the group takes those first; below that Anatomy's rule is
followed to the end.

Where rows have several sensitive values, ``joint_grouping`` makes the groups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.compiled import compiled

if TYPE_CHECKING:
    from sherd.methods.slicing.tuple_partitioning import Ints, Longs


@compiled
def sift(heap: Longs, size: int, place: int, left: Longs) -> None:
    """Let heap[place] sink until no child holds a longer list."""
    while True:
        child = 2 * place + 1
        if child >= size:
            return
        if child + 1 < size and left[heap[child + 1]] > left[heap[child]]:
            child += 1
        if left[heap[child]] <= left[heap[place]]:
            return
        heap[place], heap[child] = heap[child], heap[place]
        place = child


@compiled
def listed(values: Ints, n_values: int) -> tuple[Longs, Longs]:
    """The rows of every value in their order: where each list begins, and the rows."""
    n = len(values)
    heads = np.zeros(n_values + 1, dtype=np.int64)
    for i in range(n):
        heads[values[i] + 1] += 1
    for v in range(n_values):
        heads[v + 1] += heads[v]
    rows = np.empty(n, dtype=np.int64)
    fill = heads[:-1].copy()
    for i in range(n):
        rows[fill[values[i]]] = i
        fill[values[i]] += 1
    return heads, rows


@compiled
def waiting(values: Ints, n_values: int) -> tuple[Longs, Longs, Longs, Longs]:
    """What ``listed`` gives, the length of each list, and the group of every row: −1, none yet."""
    heads, rows = listed(values, n_values)
    return heads, rows, heads[1:] - heads[:-1], np.full(len(values), -1, dtype=np.int64)


@compiled
def grouped(values: Ints, n_values: int, l: int) -> Longs:
    """The group of every row; all 0 where there are not l values."""
    heads, rows, left, group = waiting(values, n_values)
    heap = np.empty(n_values, dtype=np.int64)
    size = 0
    for v in range(n_values):
        if left[v] > 0:
            heap[size] = v
            size += 1
    for place in range(size // 2 - 1, -1, -1):
        sift(heap, size, place, left)
    n_groups = 0
    chosen = np.empty(l, dtype=np.int64)
    while size >= l:
        for j in range(l):
            chosen[j] = heap[0]
            size -= 1
            heap[0] = heap[size]
            sift(heap, size, 0, left)
        for j in range(l):
            v = chosen[j]
            group[rows[heads[v + 1] - left[v]]] = n_groups
            left[v] -= 1
            if left[v] > 0:
                heap[size] = v
                place = size
                size += 1
                while place > 0 and left[heap[(place - 1) // 2]] < left[heap[place]]:
                    up = (place - 1) // 2
                    heap[place], heap[up] = heap[up], heap[place]
                    place = up
        n_groups += 1
    if n_groups == 0:
        return np.zeros_like(group)
    place_rest(values, group, n_groups)
    return group


@compiled
def local_groups(values: Ints, n_values: int, l: int) -> Longs:
    """The group of every row, rows in Mondrian's order; all 0 where there are not l values."""
    heads, rows, left, group = waiting(values, n_values)
    chosen = np.zeros(n_values, dtype=np.bool_)
    alive = 0
    for v in range(n_values):
        if left[v] > 0:
            alive += 1
    remaining = len(values)
    n_groups = 0
    while alive >= l:
        chosen[:] = False
        taken = 0
        if remaining >= l * (l + 1):
            for v in range(n_values):
                if left[v] * l > remaining - l and taken < l:
                    chosen[v] = True
                    taken += 1
        while taken < l:
            best = -1
            for v in range(n_values):
                if chosen[v] or left[v] == 0:
                    continue
                if best < 0:
                    best = v
                elif remaining < l * (l + 1) and left[v] != left[best]:
                    if left[v] > left[best]:
                        best = v
                elif rows[heads[v + 1] - left[v]] < rows[heads[best + 1] - left[best]]:
                    best = v
            chosen[best] = True
            taken += 1
        for v in range(n_values):
            if chosen[v]:
                group[rows[heads[v + 1] - left[v]]] = n_groups
                left[v] -= 1
                if left[v] == 0:
                    alive -= 1
        remaining -= l
        n_groups += 1
    if n_groups == 0:
        return np.zeros_like(group)
    place_rest(values, group, n_groups)
    return group


@compiled
def place_rest(values: Ints, group: Longs, n_groups: int) -> None:
    """Give rows without a group the nearest group that lacks their value.

    At most l − 1 are left and their values differ, so a value is added to a group once.
    """
    n = len(values)
    lacks = np.ones(n_groups, dtype=np.bool_)
    for i in range(n):
        if group[i] >= 0:
            continue
        lacks[:] = True
        for j in range(n):
            if group[j] >= 0 and values[j] == values[i]:
                lacks[group[j]] = False
        step = 1
        while group[i] < 0 and step < n:
            if i - step >= 0 and group[i - step] >= 0 and lacks[group[i - step]]:
                group[i] = group[i - step]
            elif i + step < n and group[i + step] >= 0 and lacks[group[i + step]]:
                group[i] = group[i + step]
            step += 1
        if group[i] < 0:
            group[:] = 0  # not possible where no value fills more than 1/l
            return
