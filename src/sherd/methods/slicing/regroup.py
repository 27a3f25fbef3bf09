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

``joint_groups`` is for several sensitive attributes: the rows of a group differ in each of them.
What finds no place is put together with as many groups as make it diverse, at the latest with
all rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sherd.methods.compiled import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sherd.methods.slicing.tuple_partitioning import Ints, Longs

TRIES = 400
"""Groups that are tried for a row where there are several sensitive attributes."""


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
def lacks(values: Ints, members: Longs, size: int, row: int) -> bool:
    """Whether no member of a group has a value of the row, in any attribute."""
    for m in range(size):
        for c in range(values.shape[1]):
            if values[members[m], c] == values[row, c]:
                return False
    return True


@compiled
def joint_groups(values: Ints, n_values: Longs, l: int) -> Longs:
    """The group of every row so that every column of ``values`` is diverse in each group.

    Rows whose values are most frequent come first, while there is most room; each takes the
    nearest group of fewer than l rows, then of fewer than 2l − 1, that lacks all its values.
    """
    n, n_columns = values.shape
    n_groups = n // l
    if n_groups < 2:
        return np.zeros(n, dtype=np.int64)
    counts = np.zeros((n_columns, n_values.max()), dtype=np.int64)
    for i in range(n):
        for c in range(n_columns):
            counts[c, values[i, c]] += 1
    share = np.zeros(n, dtype=np.int64)
    for i in range(n):
        for c in range(n_columns):
            share[i] = max(share[i], counts[c, values[i, c]])
    order = np.argsort(-share, kind="mergesort")
    group = np.full(n, -1, dtype=np.int64)
    size = np.zeros(n_groups, dtype=np.int64)
    members = np.empty((n_groups, 2 * l), dtype=np.int64)
    for most in (l, 2 * l - 1):
        following = np.arange(n_groups)  # the next group with room, followed step by step
        for i in order:
            if group[i] >= 0:
                continue
            g = i * n_groups // n
            for _ in range(TRIES if most == l else 5 * TRIES):
                steps = 0
                while size[g] >= most and steps <= n_groups:
                    ahead = following[g] + 1 if following[g] + 1 < n_groups else 0
                    following[g] = ahead if size[ahead] < most else following[ahead]
                    g = ahead
                    steps += 1
                if steps > n_groups:
                    break
                if lacks(values, members[g], size[g], i):
                    group[i] = g
                    members[g, size[g]] = i
                    size[g] += 1
                    break
                g = g + 1 if g + 1 < n_groups else 0
    found = settled(values, counts, group.copy(), members, size, l, True)
    if len(found) == 0:
        found = settled(values, counts, group, members, size, l, False)
    return found


@compiled
def worst_of(counts: Longs) -> tuple[int, int]:
    """The attribute and value that occur most often."""
    worst_c = 0
    worst_v = 0
    for c in range(counts.shape[0]):
        for v in range(counts.shape[1]):
            if counts[c, v] > counts[worst_c, worst_v]:
                worst_c = c
                worst_v = v
    return worst_c, worst_v


@compiled
def without(values: Ints, members: Longs, size: Longs, taken: NDArray[np.bool_], c: int, v: int,
            start: int) -> int:  # fmt: skip
    """The next group, from ``start`` on and around, in which nobody has a value; −1 for none."""
    n_groups = len(size)
    for step in range(n_groups):
        g = (start + step) % n_groups
        if taken[g]:
            continue
        free = True
        for m in range(size[g]):
            if values[members[g, m], c] == v:
                free = False
                break
        if free:
            return g
    return -1


@compiled
def settled(
    values: Ints, counts: Longs, group: Longs, members: Longs, size: Longs, l: int, alone: bool
) -> Longs:
    """Give rows without a group, and those of groups that stayed too small, groups of their own.

    Each takes in groups that lack the value it has too much of, until it is diverse: with
    ``alone`` row by row, and nothing is returned where that leaves too little for the last ones;
    else, and in the end, all of them together.
    """
    n, n_columns = values.shape
    n_groups = len(size)
    joined = n_groups  # numbers from here on are groups put together
    taken = size < l
    for i in range(n):
        if group[i] >= 0 and taken[group[i]]:
            group[i] = -1
    waiting = np.flatnonzero(group < 0)
    lot = np.empty(n_groups + 1, dtype=np.int64)
    for last in range(0 if alone else 1, 2):
        for place in range(len(waiting)):
            i = waiting[place]
            if group[i] >= 0:
                continue
            counts[:] = 0
            total = 0
            for other in range(place, len(waiting) if last == 1 else place + 1):
                if group[waiting[other]] < 0:
                    total += 1
                    for c in range(n_columns):
                        counts[c, values[waiting[other], c]] += 1
            held = 0
            good = False
            while not good:
                c, v = worst_of(counts)
                if counts[c, v] * l <= total:
                    good = True
                    break
                g = without(values, members, size, taken, c, v, i * n_groups // n)
                if g < 0 and last == 1:
                    g = without(values, members, size, taken, c, -1, 0)
                if g < 0 and last == 1 and joined > n_groups:
                    return np.empty(0, dtype=np.int64)  # they took what the rest needs
                if g < 0 or (last == 0 and held > 4 * n_columns):
                    break
                taken[g] = True
                lot[held] = g
                held += 1
                total += size[g]
                for m in range(size[g]):
                    for d in range(n_columns):
                        counts[d, values[members[g, m], d]] += 1
            if not good and last == 0:
                for h in range(held):
                    taken[lot[h]] = False
                continue
            for h in range(held):
                for m in range(size[lot[h]]):
                    group[members[lot[h], m]] = joined
            for other in range(place, len(waiting) if last == 1 else place + 1):
                if group[waiting[other]] < 0:
                    group[waiting[other]] = joined
            joined += 1
    used = np.zeros(joined, dtype=np.int64)
    used[group] = 1
    number = np.cumsum(used) - 1
    return number[group]


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
            if sensitive.shape[1] > 1:
                group = joint_groups(inside, sizes, l)
            else:
                group = local_groups(inside[:, 0].copy(), sizes[0], l)
            for i in range(begin, end):
                result[lo + by_q[i]] = n_groups + group[i - begin]
            n_groups += group.max() + 1
            begin = end
    return result, n_groups
