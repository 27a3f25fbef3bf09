# ruff: noqa: C901, E741 - a compiled loop is one piece; l is the field's own name
"""Mondrian's cells: boxes of codes that hold at least k rows and, if asked, diverse ones.

Equal values always stay together, so that a cell is a box of the attributes' values that
can be published. A cut is made where the halves are most equal among the boundaries that
leave k rows on both sides; with a taxonomy only boundaries between children of one
node count (see ``coding``). Dimensions are tried widest first, all of them.

With ``tight`` a cut is looked for between the values that occur in a cell; without it in
the whole box, so that published boundaries do not follow the values of single rows.
"""

from __future__ import annotations

import numpy as np

from sherd.methods.compiled import compiled
from sherd.methods.slicing.condition_kernels import halves_meet
from sherd.methods.slicing.tuple_partitioning import (
    Floats,
    Ints,
    Longs,
    by_span,
    clear,
    count_all,
    extents,
    halves_diverse,
    move,
)


@compiled
def balanced_cut(
    rows: Ints, lo: int, hi: int, d: int, low: int, high: int, depth: Ints, top: int, k: int,
    counts: Longs,
) -> int:  # fmt: skip
    """The first code of the right half, −1 where no boundary leaves k rows on both sides.

    ``low`` and ``high`` are the codes that occur, ``top`` the depth of the boundaries allowed.
    """
    size = hi - lo
    best = -1
    gap = size
    below = 0
    if high - low + 1 <= 4 * size:
        for code in range(low, high + 1):
            counts[code] = 0
        for i in range(lo, hi):
            counts[rows[i, d]] += 1
        for code in range(low + 1, high + 1):
            below += counts[code - 1]
            fits = depth[code] == top and below >= k and size - below >= k
            if fits and (abs(size - 2 * below) < gap or best < 0):
                gap = abs(size - 2 * below)
                best = code
        return best
    codes = np.sort(rows[lo:hi, d].copy())
    for i in range(max(k, 1), size - max(k, 1) + 1):
        if i < size and codes[i - 1] != codes[i]:
            for code in range(codes[i - 1] + 1, codes[i] + 1):
                if depth[code] == top:
                    if abs(size - 2 * i) < gap or best < 0:
                        gap = abs(size - 2 * i)
                        best = code
                    break
    return best


@compiled
def cells(
    rows: Ints, ids: Longs, n_dims: int, sizes: Ints, scales: Floats, depths: Ints,
    offsets: Longs, n_pairs: int, k: int, l: int, tight: bool, values: Ints, heads: Longs,
    overall: Floats, limits: Floats,
) -> tuple[Longs, Ints, Ints]:  # fmt: skip
    """The first row of every cell and its box; ``rows`` and ``ids`` are reordered to runs.

    ``depths[offsets[d]:]`` are dimension d's boundary depths. With l = 1 the columns after
    the dimensions are not looked at. ``values`` to ``limits`` say what cells must meet beyond
    k and l (see ``condition_kernels``).
    """
    beyond = limits.max() >= 0
    n = rows.shape[0]
    of_q = np.zeros(1, dtype=np.int32)
    of_pair = np.zeros(n_pairs, dtype=np.int32)
    left_q = np.zeros(1, dtype=np.int32)
    left_pair = np.zeros(n_pairs, dtype=np.int32)
    low = np.empty(n_dims, dtype=np.int32)
    high = np.empty(n_dims, dtype=np.int32)
    dims = np.empty(n_dims, dtype=np.int32)
    widest = 1
    for d in range(n_dims):
        widest = max(widest, sizes[d])
    counts = np.zeros(widest, dtype=np.int64)
    spare = np.empty((n, rows.shape[1]), dtype=np.int32)
    spare_ids = np.empty(n, dtype=np.int64)
    capacity = 1024
    box_low = np.zeros((capacity, n_dims), dtype=np.int32)
    box_high = np.zeros((capacity, n_dims), dtype=np.int32)
    starts = np.zeros(capacity, dtype=np.int64)
    n_cells = 0
    # A stack of boxes still to be split, the leftmost on top.
    ends = [n]
    stack_low = np.zeros((128, n_dims), dtype=np.int32)
    stack_high = np.zeros((128, n_dims), dtype=np.int32)
    for d in range(n_dims):
        stack_high[0, d] = sizes[d] - 1
    lo = 0
    while len(ends) > 0:
        top_of_stack = len(ends) - 1
        hi = ends[top_of_stack]
        best = -1
        cut = -1
        if hi - lo >= 2 * k:
            extents(rows, lo, hi, n_dims, low, high)
            found = by_span(low, high, scales, n_dims, dims)
            if l > 1:
                count_all(rows, lo, hi, n_dims, of_q, of_pair)
            for attempt in range(found):
                d = dims[attempt]
                depth = depths[offsets[d] : offsets[d + 1]]
                first = low[d] if tight else stack_low[top_of_stack, d]
                last = high[d] if tight else stack_high[top_of_stack, d]
                top = depth[first + 1]
                for code in range(first + 2, last + 1):
                    top = min(top, depth[code])
                cut = balanced_cut(rows, lo, hi, d, low[d], high[d], depth, top, k, counts)
                if cut < 0:
                    continue
                if l > 1 and not halves_diverse(
                    rows, lo, hi, n_dims, d, cut, 0, l, of_q, of_pair, left_q, left_pair
                ):
                    continue
                if beyond and not halves_meet(
                    rows, ids, lo, hi, n_dims, d, cut, 0, values, heads, overall, limits
                ):
                    continue
                best = d
                break
            if l > 1:
                clear(rows, lo, hi, n_dims, of_q, of_pair)
        if best >= 0:
            mid = move(rows, ids, lo, hi, best, cut, 0, spare, spare_ids)
            ends.append(mid)
            if len(ends) > stack_low.shape[0]:
                more = stack_low.shape[0] * 2
                taller_low = np.zeros((more, n_dims), dtype=np.int32)
                taller_high = np.zeros((more, n_dims), dtype=np.int32)
                taller_low[: stack_low.shape[0]] = stack_low
                taller_high[: stack_high.shape[0]] = stack_high
                stack_low = taller_low
                stack_high = taller_high
            stack_low[top_of_stack + 1] = stack_low[top_of_stack]
            stack_high[top_of_stack + 1] = stack_high[top_of_stack]
            stack_high[top_of_stack + 1, best] = cut - 1
            stack_low[top_of_stack, best] = cut
            continue
        if n_cells == capacity:
            larger_low = np.zeros((2 * capacity, n_dims), dtype=np.int32)
            larger_high = np.zeros((2 * capacity, n_dims), dtype=np.int32)
            larger_starts = np.zeros(2 * capacity, dtype=np.int64)
            larger_low[:capacity] = box_low
            larger_high[:capacity] = box_high
            larger_starts[:capacity] = starts
            box_low = larger_low
            box_high = larger_high
            starts = larger_starts
            capacity *= 2
        box_low[n_cells] = stack_low[top_of_stack]
        box_high[n_cells] = stack_high[top_of_stack]
        starts[n_cells] = lo
        n_cells += 1
        lo = hi
        ends.pop()
    return starts[:n_cells], box_low[:n_cells], box_high[:n_cells]


@compiled
def tight_boxes(rows: Ints, n_dims: int, starts: Longs) -> tuple[Ints, Ints]:
    """The smallest and largest code of every dimension in every cell."""
    n = rows.shape[0]
    box_low = np.empty((len(starts), n_dims), dtype=np.int32)
    box_high = np.empty((len(starts), n_dims), dtype=np.int32)
    for b in range(len(starts)):
        end = starts[b + 1] if b + 1 < len(starts) else n
        extents(rows, starts[b], end, n_dims, box_low[b], box_high[b])
    return box_low, box_high


@compiled
def locate(rows: Ints, box_low: Ints, box_high: Ints) -> Ints:
    """The cell whose box holds each row, −1 where none does (boxes do not overlap)."""
    found = np.full(rows.shape[0], -1, dtype=np.int32)
    for i in range(rows.shape[0]):
        for b in range(box_low.shape[0]):
            inside = True
            for d in range(box_low.shape[1]):
                if rows[i, d] < box_low[b, d] or rows[i, d] > box_high[b, d]:
                    inside = False
                    break
            if inside:
                found[i] = b
                break
    return found
