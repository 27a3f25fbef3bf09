# ruff: noqa: C901, E741 - a compiled loop is one piece; l is the field's own name
"""The diversity check on the records' own tuples, kept up to date split by split.

Notation: for a signature t (the codes of its columns without the sensitive one, and of q,
the quasi-identifiers in the sensitive column) and a sensitive value s

    N(t, s) = Σ_B |B|^β · Π_i cnt_{i,B}[t_i] / cnt_{sep i,B}[t_sep i] · cnt_B[(q, s)] / |B|,
    p(t, s) = N(t, s) / Σ_s N(t, s)  ≤  1/l.

sep i is what column i shares with earlier columns, |B| where it shares nothing. A split of
B into B1, B2 changes N only for signatures all of whose parts occur in B; they are found
through the part with the fewest signatures behind B's values. The split is kept iff all of
them stay within 1/l. ``from_scratch`` computes the same N with nothing kept.

The parts of a signature are given as a matrix ``parts[signature, part]``: first those of
exponent +1 (columns, then q), then the separators (exponent −1), every part's codes
offset so that all share one table of counts. The power of |B| is β minus one for
every column that shares nothing.
"""

from __future__ import annotations

import numpy as np

from sherd.methods.compiled import compiled
from sherd.methods.slicing.tuple_partitioning import (
    Floats,
    Ints,
    Longs,
    by_span,
    extents,
    median,
    move,
    workspace,
)

SLACK = 1e-9
"""How far p may exceed 1/l by rounding."""


@compiled
def weight(parts: Ints, t: int, n_plus: int, counts: Ints, size: int, power: float) -> float:
    """The factor of N(t, s) that does not depend on s, without cnt(q)."""
    if size == 0:
        return 0.0
    value: float = float(size) ** power
    for c in range(n_plus - 1):
        value *= counts[parts[t, c]]
    if value == 0.0:
        return 0.0
    for c in range(n_plus, parts.shape[1]):
        value /= counts[parts[t, c]]
    return value


@compiled
def count_bucket(
    rows: Ints, lo: int, hi: int, first: int, parts: Ints, n_plus: int, counts: Ints,
    of_pair: Ints, seen: Ints, n_seen: Longs,
) -> None:  # fmt: skip
    """Count a bucket's parts and pairs; ``seen[part]`` lists the values that occur."""
    for c in range(n_plus):
        n_seen[c] = 0
    for i in range(lo, hi):
        t = rows[i, first]
        for c in range(parts.shape[1]):
            value = parts[t, c]
            if counts[value] == 0 and c < n_plus:
                seen[c, n_seen[c]] = value
                n_seen[c] += 1
            counts[value] += 1
        for c in range(first + 1, rows.shape[1]):
            of_pair[rows[i, c]] += 1


@compiled
def uncount(
    rows: Ints, lo: int, hi: int, first: int, parts: Ints, counts: Ints, of_pair: Ints
) -> None:
    """Set the counts of a bucket back to zero."""
    for i in range(lo, hi):
        t = rows[i, first]
        for c in range(parts.shape[1]):
            counts[parts[t, c]] = 0
        for c in range(first + 1, rows.shape[1]):
            of_pair[rows[i, c]] = 0


@compiled
def affected(
    parts: Ints, n_plus: int, counts: Ints, seen: Ints, n_seen: Longs, heads: Longs, members: Ints,
    out: Ints,
) -> int:  # fmt: skip
    """The signatures all of whose parts occur in the bucket; returns how many."""
    rarest = 0
    fewest = -1
    for c in range(n_plus):
        behind = 0
        for i in range(n_seen[c]):
            behind += heads[seen[c, i] + 1] - heads[seen[c, i]]
        if fewest < 0 or behind < fewest:
            fewest = behind
            rarest = c
    total = 0
    for i in range(n_seen[rarest]):
        value = seen[rarest, i]
        for m in range(heads[value], heads[value + 1]):
            t = members[m]
            matches = True
            for c in range(n_plus):
                if counts[parts[t, c]] == 0:
                    matches = False
                    break
            if matches:
                out[total] = t
                total += 1
    return total


@compiled
def diverse(values: Floats, blocks: Longs, l: int) -> bool:
    """Whether in every block no value is above 1/l of the block's sum."""
    for b in range(len(blocks) - 1):
        total = 0.0
        largest = 0.0
        for s in range(blocks[b], blocks[b + 1]):
            total += values[s]
            largest = max(largest, values[s])
        if largest * l > total * (1.0 + SLACK):
            return False
    return True


@compiled
def from_scratch(
    rows: Ints, first: int, starts: Longs, parts: Ints, n_plus: int, n_values: int,
    heads: Longs, members: Ints, pair_of: Longs, n_pairs: int, n_s: int, power: float,
) -> Floats:  # fmt: skip
    """N(t, s) of every signature, bucket by bucket.

    ``pair_of[q, s]`` is the code of the pair (q, s), −1 where it occurs nowhere; q is the
    last part of exponent +1, counted from ``pair_of``'s own zero.
    """
    n = rows.shape[0]
    state = np.zeros((parts.shape[0], n_s), dtype=np.float64)
    counts = np.zeros(n_values, dtype=np.int32)
    of_pair = np.zeros(n_pairs, dtype=np.int32)
    seen = np.empty((n_plus, parts.shape[0] + 1), dtype=np.int32)
    n_seen = np.zeros(n_plus, dtype=np.int64)
    touched = np.empty(parts.shape[0], dtype=np.int32)
    base = n_values - pair_of.shape[0]
    for b in range(len(starts)):
        lo = starts[b]
        hi = starts[b + 1] if b + 1 < len(starts) else n
        count_bucket(rows, lo, hi, first, parts, n_plus, counts, of_pair, seen, n_seen)
        total = affected(parts, n_plus, counts, seen, n_seen, heads, members, touched)
        for i in range(total):
            t = touched[i]
            w = weight(parts, t, n_plus, counts, hi - lo, power)
            q = parts[t, n_plus - 1] - base
            for s in range(n_s):
                if pair_of[q, s] >= 0:
                    state[t, s] += w * of_pair[pair_of[q, s]]
        uncount(rows, lo, hi, first, parts, counts, of_pair)
    return state


@compiled
def settle(
    touched: Ints, parts: Ints, n_plus: int, counts: Ints, left_counts: Ints, of_pair: Ints,
    left_pair: Ints, size_b: float, size_1: float, size_2: float, pair_of: Longs, base: int,
    blocks: Longs, l: int, state: Floats, fresh: Floats,
) -> bool:  # fmt: skip
    """Whether every touched signature stays within 1/l after a split; if so, keep the new N.

    The new sums wait in ``fresh`` where it has room for all. A signature that fails moves to
    the front of ``touched``: it will often fail the next split of the same bucket too.
    """
    n_s = state.shape[1]
    room = fresh.shape[0] >= len(touched)
    for write in range(2):
        for i in range(len(touched)):
            t = touched[i]
            place = i if room else 0
            if write == 1 and room:
                for s in range(n_s):
                    state[t, s] = fresh[place, s]
                continue
            whole = size_b
            one = size_1
            two = size_2
            for c in range(n_plus - 1):
                both = counts[parts[t, c]]
                left = left_counts[parts[t, c]]
                whole *= both
                one *= left
                two *= both - left
            for c in range(n_plus, parts.shape[1]):
                both = counts[parts[t, c]]
                left = left_counts[parts[t, c]]
                whole /= both
                if one > 0.0:
                    one /= left
                if two > 0.0:
                    two /= both - left
            q = parts[t, n_plus - 1] - base
            for s in range(n_s):
                pair = pair_of[q, s]
                if pair < 0:
                    fresh[place, s] = 0.0
                else:
                    a = left_pair[pair]
                    b = of_pair[pair]
                    fresh[place, s] = max(state[t, s] + one * a + two * (b - a) - whole * b, 0.0)
            if write == 1:
                for s in range(n_s):
                    state[t, s] = fresh[place, s]
            elif not diverse(fresh[place], blocks, l):
                touched[i] = touched[0]
                touched[0] = t
                return False
    return True


@compiled
def count_left(
    rows: Ints, lo: int, hi: int, n_dims: int, d: int, cut: int, ties: int, parts: Ints,
    left_counts: Ints, left_pair: Ints,
) -> None:  # fmt: skip
    """Count what the left half of a split holds."""
    waiting = ties
    for i in range(lo, hi):
        code = rows[i, d]
        if code < cut or (code == cut and waiting > 0):
            if code == cut:
                waiting -= 1
            t = rows[i, n_dims]
            for c in range(parts.shape[1]):
                left_counts[parts[t, c]] += 1
            for c in range(n_dims + 1, rows.shape[1]):
                left_pair[rows[i, c]] += 1


@compiled
def partition_records(
    rows: Ints, ids: Longs, n_dims: int, sizes: Ints, scales: Floats, parts: Ints, n_plus: int,
    n_values: int, heads: Longs, members: Ints, pair_of: Longs, n_pairs: int, blocks: Longs,
    power: float, l: int, tries: int, state: Floats,
) -> Longs:  # fmt: skip
    """Tuple partitioning by Algorithm Tuple-Partition; ``state`` is N of the one root bucket.

    Returns the buckets' first rows; ``rows`` and ``ids`` are reordered to runs and
    ``state`` ends as N of the result.
    """
    n = rows.shape[0]
    n_s = state.shape[1]
    counts = np.zeros(n_values, dtype=np.int32)
    left_counts = np.zeros(n_values, dtype=np.int32)
    of_pair = np.zeros(n_pairs, dtype=np.int32)
    left_pair = np.zeros(n_pairs, dtype=np.int32)
    seen = np.empty((n_plus, parts.shape[0] + 1), dtype=np.int32)
    n_seen = np.zeros(n_plus, dtype=np.int64)
    touched = np.empty(parts.shape[0], dtype=np.int32)
    low, high, dims, spare, spare_ids, widest = workspace(rows, n_dims, sizes)
    by_code = np.zeros(widest, dtype=np.int32)
    fresh = np.empty((min(parts.shape[0], 100_000) + 1, n_s), dtype=np.float64)
    base = n_values - pair_of.shape[0]
    queue = [(0, n)]
    final = [0]
    final.pop()
    first = 0
    while first < len(queue):
        lo, hi = queue[first]
        first += 1
        extents(rows, lo, hi, n_dims, low, high)
        varying = by_span(low, high, scales, n_dims, dims)
        best = -1
        cut = 0
        ties = 0
        if varying > 0:
            count_bucket(rows, lo, hi, n_dims, parts, n_plus, counts, of_pair, seen, n_seen)
            total = affected(parts, n_plus, counts, seen, n_seen, heads, members, touched)
            for attempt in range(min(varying, tries)):
                d = dims[attempt]
                cut, ties = median(rows, lo, hi, d, low[d], high[d], by_code)
                half = (hi - lo) // 2
                count_left(rows, lo, hi, n_dims, d, cut, ties, parts, left_counts, left_pair)
                good = settle(
                    touched[:total], parts, n_plus, counts, left_counts, of_pair, left_pair,
                    float(hi - lo) ** power, float(half) ** power if half > 0 else 0.0,
                    float(hi - lo - half) ** power, pair_of, base, blocks, l, state, fresh,
                )  # fmt: skip
                uncount(rows, lo, hi, n_dims, parts, left_counts, left_pair)
                if good:
                    best = d
                    break
            uncount(rows, lo, hi, n_dims, parts, counts, of_pair)
        if best >= 0:
            mid = move(rows, ids, lo, hi, best, cut, ties, spare, spare_ids)
            queue.append((lo, mid))
            queue.append((mid, hi))
        else:
            final.append(lo)
    return np.sort(np.array(final, dtype=np.int64))
