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

``merged`` mends groups for further sensitive attributes: neighbours are joined until every
attribute is diverse. It ends at the latest with all rows together.
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
def grouped(values: Ints, n_values: int, l: int) -> Longs:
    """The group of every row; all 0 where there are not l values."""
    n = len(values)
    group = np.full(n, -1, dtype=np.int64)
    heads, rows = listed(values, n_values)
    left = heads[1:] - heads[:-1]
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
        return np.zeros(n, dtype=np.int64)
    place_rest(values, group, n_groups)
    return group


@compiled
def local_groups(values: Ints, n_values: int, l: int) -> Longs:
    """The group of every row, rows in Mondrian's order; all 0 where there are not l values."""
    n = len(values)
    group = np.full(n, -1, dtype=np.int64)
    heads, rows = listed(values, n_values)
    left = heads[1:] - heads[:-1]
    chosen = np.zeros(n_values, dtype=np.bool_)
    alive = 0
    for v in range(n_values):
        if left[v] > 0:
            alive += 1
    remaining = n
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
        return np.zeros(n, dtype=np.int64)
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


@compiled
def merged(group: Longs, values: Ints, n_values: Longs, l: int) -> Longs:
    """Join neighbouring groups until every column of ``values`` is diverse in each."""
    n = len(group)
    n_columns = values.shape[1]
    n_groups = group.max() + 1
    order = np.argsort(group, kind="mergesort")
    heads = np.zeros(n_groups + 1, dtype=np.int64)
    for i in range(n):
        heads[group[i] + 1] += 1
    for g in range(n_groups):
        heads[g + 1] += heads[g]
    widest = n_values.max()
    counts = np.zeros((n_columns, widest), dtype=np.int64)
    result = np.empty(n, dtype=np.int64)
    begins = [0]
    begins.pop()
    first = 0
    for g in range(n_groups):
        for i in range(heads[g], heads[g + 1]):
            for c in range(n_columns):
                counts[c, values[order[i], c]] += 1
        if fits(counts, heads[g + 1] - heads[first], l):
            begins.append(first)
            first = g + 1
            counts[:] = 0
    # What is left over joins the groups before it, one after the other, until it fits.
    while first < n_groups and len(begins) > 0:
        first = begins.pop()
        counts[:] = 0
        for i in range(heads[first], n):
            for c in range(n_columns):
                counts[c, values[order[i], c]] += 1
        if fits(counts, n - heads[first], l):
            begins.append(first)
            break
    if len(begins) == 0:
        begins.append(0)
    for b in range(len(begins)):
        end = heads[begins[b + 1]] if b + 1 < len(begins) else n
        for i in range(heads[begins[b]], end):
            result[order[i]] = b
    return result


@compiled
def fits(counts: Longs, size: int, l: int) -> bool:
    """Whether no count is above 1/l of the size."""
    for c in range(counts.shape[0]):
        for v in range(counts.shape[1]):
            if counts[c, v] * l > size:
                return False
    return True


@compiled
def regrouped(
    rows: Ints, n_dims: int, starts: Longs, n_values: Longs, sensitive: Ints, l: int
) -> tuple[Longs, int]:
    """The group of every row: each bucket regrouped, each q in a bucket by itself.

    ``sensitive`` holds the sensitive codes of the rows, in the order of ``rows``.
    """
    n = rows.shape[0]
    result = np.empty(n, dtype=np.int64)
    n_groups = 0
    # Codes are made local to what is regrouped: a bucket knows few of many values.
    local = np.full(n_values.max(), -1, dtype=np.int64)
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
            inside = np.empty((end - begin, sensitive.shape[1]), dtype=np.int32)
            sizes = np.zeros(sensitive.shape[1], dtype=np.int64)
            for c in range(sensitive.shape[1]):
                known = 0
                for i in range(begin, end):
                    value = sensitive[lo + by_q[i], c]
                    if local[value] < 0:
                        local[value] = known
                        known += 1
                    inside[i - begin, c] = local[value]
                for i in range(begin, end):
                    local[sensitive[lo + by_q[i], c]] = -1
                sizes[c] = known
            group = local_groups(inside[:, 0].copy(), sizes[0], l)
            if sensitive.shape[1] > 1:
                group = merged(group, inside, sizes, l)
            for i in range(begin, end):
                result[lo + by_q[i]] = n_groups + group[i - begin]
            n_groups += group.max() + 1
            begin = end
    return result, n_groups
