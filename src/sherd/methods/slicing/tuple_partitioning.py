# ruff: noqa: E741 - l is the field's own name for it
"""Tuple partitioning: Mondrian's median splits, kept while every bucket stays diverse.

The check here looks at each bucket alone: for every combination q of the quasi-identifiers
that share the sensitive column, no sensitive value may fill more than 1/l of the rows with
that q. Where this holds in every bucket, p(t, s) ≤ 1/l for every tuple t that the release
could match, also for tuples that belong to nobody and for any weights of the buckets:

    p(t, s) = Σ_B w_B(t) cnt_B(q, s) / Σ_B w_B(t) cnt_B(q)  ≤  max_B cnt_B(q, s) / cnt_B(q),

a mediant of the buckets' own shares. ``incremental_diversity`` holds the weaker check on
the records' own tuples.

A row of the matrix given to a kernel holds the codes of the dimensions, then the code of
q, then one code for each sensitive attribute, of the pair (q, s). Rows are moved, not
gathered: what a bucket needs lies together, whatever the size of the table. Ties at a
median are broken by the order of the rows, which the caller has shuffled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sherd.methods.compiled import compiled, inlined_kernel
from sherd.methods.slicing.condition_kernels import halves_meet

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]

_FEW = 24
"""Rows that are sorted by insertion."""


@inlined_kernel
def extents(rows: Ints, lo: int, hi: int, n_dims: int, low: Ints, high: Ints) -> None:
    """The smallest and largest code of every dimension in rows lo … hi − 1."""
    for d in range(n_dims):
        low[d] = rows[lo, d]
        high[d] = rows[lo, d]
    for i in range(lo + 1, hi):
        for d in range(n_dims):  # without branches: several dimensions at once
            code = rows[i, d]
            low[d] = min(low[d], code)
            high[d] = max(high[d], code)


@compiled
def by_span(low: Ints, high: Ints, scales: Floats, n_dims: int, out: Ints) -> int:
    """The dimensions that vary, widest scaled span first; returns how many.

    Equal spans keep the order of the dimensions, which the caller has shuffled.
    """
    spans = np.empty(n_dims, dtype=np.float64)
    varying = 0
    for d in range(n_dims):
        if high[d] == low[d]:
            continue
        span = (high[d] - low[d]) * scales[d]
        place = varying
        while place > 0 and spans[place - 1] < span:
            spans[place] = spans[place - 1]
            out[place] = out[place - 1]
            place -= 1
        spans[place] = span
        out[place] = d
        varying += 1
    return varying


@inlined_kernel
def widest(low: Ints, high: Ints, scales: Floats, n_dims: int) -> int:
    """The first dimension by span, −1 where none varies."""
    best = -1
    most = 0.0
    for d in range(n_dims):
        span = (high[d] - low[d]) * scales[d]
        if span > most or (best < 0 and high[d] > low[d]):
            best = d
            most = span
    return best


@inlined_kernel
def median(
    rows: Ints, lo: int, hi: int, d: int, low: int, high: int, counts: Ints
) -> tuple[int, int]:
    """The code at the median rank, and how many rows of that code belong to the left half."""
    n = hi - lo
    half = n // 2
    if n <= _FEW and n <= counts.size:
        for i in range(n):  # sorted by insertion: nothing is cleared or allocated for a few rows
            code = rows[lo + i, d]
            place = i
            while place > 0 and counts[place - 1] > code:
                counts[place] = counts[place - 1]
                place -= 1
            counts[place] = code
        cut = counts[half]
        below = half
        while below > 0 and counts[below - 1] == cut:
            below -= 1
        return cut, half - below
    if high - low + 1 <= 4 * n:
        for code in range(low, high + 1):
            counts[code] = 0
        for i in range(lo, hi):
            counts[rows[i, d]] += 1
        below = 0
        for code in range(low, high + 1):
            if below + counts[code] > half:
                return code, half - below
            below += counts[code]
    codes = np.sort(rows[lo:hi, d].copy())
    cut = codes[half]
    below = 0
    while codes[below] < cut:
        below += 1
    return cut, half - below


@inlined_kernel
def move(
    rows: Ints,
    ids: Longs,
    lo: int,
    hi: int,
    d: int,
    cut: int,
    ties: int,
    spare: Ints,
    spare_ids: Longs,
) -> int:
    """Put the left half first: codes below ``cut`` and the first ``ties`` equal to it."""
    width = rows.shape[1]
    left = lo
    right = 0
    for i in range(lo, hi):
        code = rows[i, d]
        goes_left = code < cut
        if code == cut and ties > 0:
            ties -= 1
            goes_left = True
        if goes_left:
            if left != i:
                for c in range(width):
                    rows[left, c] = rows[i, c]
                ids[left] = ids[i]
            left += 1
        else:
            for c in range(width):
                spare[right, c] = rows[i, c]
            spare_ids[right] = ids[i]
            right += 1
    for i in range(right):
        for c in range(width):
            rows[left + i, c] = spare[i, c]
        ids[left + i] = spare_ids[i]
    return left


@inlined_kernel
def count_all(rows: Ints, lo: int, hi: int, n_dims: int, of_q: Ints, of_pair: Ints) -> None:
    """Count q and the pairs (q, s) of a bucket into tables that were zero."""
    for i in range(lo, hi):
        of_q[rows[i, n_dims]] += 1
        for c in range(n_dims + 1, rows.shape[1]):
            of_pair[rows[i, c]] += 1


@compiled
def workspace(rows: Ints, n_dims: int, sizes: Ints) -> tuple[Ints, Ints, Ints, Ints, Longs, int]:
    """Room for extents, dimensions and moved rows, and the most codes that a dimension has."""
    low = np.empty(n_dims, dtype=np.int32)
    high = np.empty(n_dims, dtype=np.int32)
    dims = np.empty(n_dims, dtype=np.int32)
    spare = np.empty((rows.shape[0], rows.shape[1]), dtype=np.int32)
    spare_ids = np.empty(rows.shape[0], dtype=np.int64)
    widest = 1
    for d in range(n_dims):
        widest = max(widest, sizes[d])
    return low, high, dims, spare, spare_ids, widest


@inlined_kernel
def clear(rows: Ints, lo: int, hi: int, n_dims: int, of_q: Ints, of_pair: Ints) -> None:
    """Set the counts of a bucket's codes back to zero."""
    if of_q.size + of_pair.size <= hi - lo:
        of_q[:] = 0
        of_pair[:] = 0
        return
    for i in range(lo, hi):
        of_q[rows[i, n_dims]] = 0
        for c in range(n_dims + 1, rows.shape[1]):
            of_pair[rows[i, c]] = 0


@inlined_kernel
def halves_diverse(
    rows: Ints, lo: int, hi: int, n_dims: int, d: int, cut: int, ties: int, l: int,
    of_q: Ints, of_pair: Ints, left_q: Ints, left_pair: Ints,
) -> bool:  # fmt: skip
    """Whether both halves of a split would be diverse; the ``left`` tables are zero again."""
    waiting = ties
    for i in range(lo, hi):
        code = rows[i, d]
        goes_left = code < cut
        if code == cut and waiting > 0:
            waiting -= 1
            goes_left = True
        if goes_left:
            left_q[rows[i, n_dims]] += 1
            for c in range(n_dims + 1, rows.shape[1]):
                left_pair[rows[i, c]] += 1
    good = True
    if of_q.size == 1 and of_pair.size <= hi - lo:  # all pairs belong to the only q
        inside_q, outside_q = left_q[0], of_q[0] - left_q[0]
        for pair in range(of_pair.size):
            inside = left_pair[pair]
            if inside * l > inside_q or (of_pair[pair] - inside) * l > outside_q:
                good = False
                break
        clear(rows, lo, hi, n_dims, left_q, left_pair)
        return good
    for i in range(lo, hi):
        q = rows[i, n_dims]
        for c in range(n_dims + 1, rows.shape[1]):
            pair = rows[i, c]
            inside = left_pair[pair]
            if inside * l > left_q[q] or (of_pair[pair] - inside) * l > of_q[q] - left_q[q]:
                good = False
                break
        if not good:
            break
    clear(rows, lo, hi, n_dims, left_q, left_pair)
    return good


@compiled
def partition(
    rows: Ints, ids: Longs, n_dims: int, sizes: Ints, scales: Floats, n_q: int, n_pairs: int,
    l: int, tries: int, values: Ints, heads: Longs, overall: Floats, limits: Floats,
) -> Longs:  # fmt: skip
    """Split until no tried dimension gives two diverse halves; the buckets' first rows.

    ``rows`` and ``ids`` are reordered so that every bucket is a run of rows. ``values`` to
    ``limits`` say what halves must meet beyond l (see ``condition_kernels``).
    """
    beyond = limits.max() >= 0
    n = rows.shape[0]
    of_q = np.zeros(n_q, dtype=np.int32)
    of_pair = np.zeros(n_pairs, dtype=np.int32)
    left_q = np.zeros(n_q, dtype=np.int32)
    left_pair = np.zeros(n_pairs, dtype=np.int32)
    low = np.empty(n_dims, dtype=np.int32)
    high = np.empty(n_dims, dtype=np.int32)
    dims = np.empty(n_dims, dtype=np.int32)
    counts = np.zeros(max(sizes.max(), 1), dtype=np.int32)
    spare = np.empty((n - n // 2 + 1, rows.shape[1]), dtype=np.int32)
    spare_ids = np.empty(n - n // 2 + 1, dtype=np.int64)
    ends = [n]
    begins = [0]
    begins.pop()
    lo = 0
    while len(ends) > 0:
        hi = ends[-1]
        split = False
        if hi - lo >= 2 * l:
            extents(rows, lo, hi, n_dims, low, high)
            varying = by_span(low, high, scales, n_dims, dims)
            count_all(rows, lo, hi, n_dims, of_q, of_pair)
            best = -1
            cut = 0
            ties = 0
            for attempt in range(min(varying, tries)):
                d = dims[attempt]
                cut, ties = median(rows, lo, hi, d, low[d], high[d], counts)
                if halves_diverse(
                    rows, lo, hi, n_dims, d, cut, ties, l, of_q, of_pair, left_q, left_pair
                ) and (
                    not beyond
                    or halves_meet(
                        rows, ids, lo, hi, n_dims, d, cut, ties, values, heads, overall, limits
                    )
                ):
                    best = d
                    break
            clear(rows, lo, hi, n_dims, of_q, of_pair)
            if best >= 0:
                mid = move(rows, ids, lo, hi, best, cut, ties, spare, spare_ids)
                ends.append(mid)
                split = True
        if not split:
            begins.append(lo)
            lo = hi
            ends.pop()
    return np.array(begins, dtype=np.int64)


@compiled
def finest(rows: Ints, ids: Longs, n_dims: int, sizes: Ints, scales: Floats, starts: Longs) -> None:
    """Go on splitting inside every bucket without a check: Mondrian's order of its rows."""
    n = rows.shape[0]
    low = np.empty(n_dims, dtype=np.int32)
    high = np.empty(n_dims, dtype=np.int32)
    counts = np.zeros(max(sizes.max(), 1), dtype=np.int32)
    largest = 1
    for b in range(len(starts)):
        end = starts[b + 1] if b + 1 < len(starts) else n
        largest = max(largest, end - starts[b])
    spare = np.empty((largest, rows.shape[1]), dtype=np.int32)
    spare_ids = np.empty(largest, dtype=np.int64)
    for b in range(len(starts)):
        ends = [starts[b + 1] if b + 1 < len(starts) else n]
        lo = starts[b]
        while len(ends) > 0:
            hi = ends[-1]
            if hi - lo >= 2:
                extents(rows, lo, hi, n_dims, low, high)
                d = widest(low, high, scales, n_dims)
                if d >= 0:
                    cut, ties = median(rows, lo, hi, d, low[d], high[d], counts)
                    ends.append(move(rows, ids, lo, hi, d, cut, ties, spare, spare_ids))
                    continue
            lo = hi
            ends.pop()
