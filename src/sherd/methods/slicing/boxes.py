# ruff: noqa: E741 - a compiled loop is one piece; l is the field's own name
"""Mondrian's cells: boxes of codes that hold at least k rows and, if asked, diverse ones.

Equal values always stay together, so a cell is a box of the attributes' values that can be
published. A cut is made where the halves are most equal among the boundaries that
leave k rows on both sides; with a taxonomy only boundaries between children of one
node count (see ``attribute_codes``). Dimensions are tried widest first, all of them.

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
    workspace,
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
def shallowest(depth: Ints, first: int, last: int) -> int:
    """The least depth of a boundary between the codes of a box."""
    top = depth[first + 1]
    for code in range(first + 2, last + 1):
        top = min(top, depth[code])
    return int(top)


@compiled
def find_cut(
    rows: Ints, ids: Longs, lo: int, hi: int, n_dims: int, scales: Floats, dims: Ints, low: Ints,
    high: Ints, first: Ints, last: Ints, depths: Ints, offsets: Longs, k: int, l: int,
    counts: Longs, of_q: Ints, of_pair: Ints, left_q: Ints, left_pair: Ints, values: Ints,
    heads: Longs, overall: Floats, limits: Floats,
) -> tuple[int, int]:  # fmt: skip
    """The first dimension that can be cut, and where; −1 for none.

    ``low`` and ``high`` are filled with the codes that occur; boundaries are looked for between
    ``first`` and ``last``.
    """
    extents(rows, lo, hi, n_dims, low, high)
    beyond = limits.max() >= 0
    for attempt in range(by_span(low, high, scales, n_dims, dims)):
        d = dims[attempt]
        depth = depths[offsets[d] : offsets[d + 1]]
        top = shallowest(depth, first[d], last[d])
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
        return d, cut
    return -1, -1


@compiled
def doubled(boxes: Ints) -> Ints:
    """Room for twice as many boxes."""
    larger = np.zeros((2 * boxes.shape[0], boxes.shape[1]), dtype=np.int32)
    larger[: boxes.shape[0]] = boxes
    return larger


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
    of_q = np.zeros(1, dtype=np.int32)
    of_pair = np.zeros(n_pairs, dtype=np.int32)
    left_q = np.zeros(1, dtype=np.int32)
    left_pair = np.zeros(n_pairs, dtype=np.int32)
    low, high, dims, spare, spare_ids, widest = workspace(rows, n_dims, sizes)
    counts = np.zeros(widest, dtype=np.int64)
    box_low = np.zeros((1024, n_dims), dtype=np.int32)
    box_high = np.zeros((1024, n_dims), dtype=np.int32)
    starts = [0]
    starts.pop()
    # A stack of boxes still to be split, the leftmost on top.
    ends = [rows.shape[0]]
    stack_low = np.zeros((128, n_dims), dtype=np.int32)
    stack_high = np.zeros((128, n_dims), dtype=np.int32)
    stack_high[0] = sizes[:n_dims] - 1
    lo = 0
    while len(ends) > 0:
        top_of_stack = len(ends) - 1
        hi = ends[top_of_stack]
        best, cut = -1, -1
        if hi - lo >= 2 * k:
            if l > 1:
                count_all(rows, lo, hi, n_dims, of_q, of_pair)
            first = low if tight else stack_low[top_of_stack]
            last = high if tight else stack_high[top_of_stack]
            best, cut = find_cut(
                rows, ids, lo, hi, n_dims, scales, dims, low, high, first, last, depths, offsets,
                k, l, counts, of_q, of_pair, left_q, left_pair, values, heads, overall, limits,
            )  # fmt: skip
            if l > 1:
                clear(rows, lo, hi, n_dims, of_q, of_pair)
        if best >= 0:
            ends.append(move(rows, ids, lo, hi, best, cut, 0, spare, spare_ids))
            if len(ends) > stack_low.shape[0]:
                stack_low = doubled(stack_low)
                stack_high = doubled(stack_high)
            stack_low[top_of_stack + 1] = stack_low[top_of_stack]
            stack_high[top_of_stack + 1] = stack_high[top_of_stack]
            stack_high[top_of_stack + 1, best] = cut - 1
            stack_low[top_of_stack, best] = cut
            continue
        if len(starts) == box_low.shape[0]:
            box_low = doubled(box_low)
            box_high = doubled(box_high)
        box_low[len(starts)] = stack_low[top_of_stack]
        box_high[len(starts)] = stack_high[top_of_stack]
        starts.append(lo)
        lo = ends.pop()
    return np.array(starts, dtype=np.int64), box_low[: len(starts)], box_high[: len(starts)]


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
    cell_of_row = np.full(rows.shape[0], -1, dtype=np.int32)
    for i in range(rows.shape[0]):
        for b in range(box_low.shape[0]):
            inside = True
            for d in range(box_low.shape[1]):
                if rows[i, d] < box_low[b, d] or rows[i, d] > box_high[b, d]:
                    inside = False
                    break
            if inside:
                cell_of_row[i] = b
                break
    return cell_of_row
