"""Cells of alike tuples, compiled: where our own placement strategy starts from.

The published heuristic orders a fragment by the attributes to be kept similar and cuts the
order into groups; ties are left as they fall. Here the tuples of a fragment are split top-down
at medians, always by the attribute that promises most, as long as both halves stay large
enough and *diverse*. No combination of a constraint's values may fill more than 1/k_i of a
cell, or its tuples could not be spread over the cell's own groups. Where the attribute lies in
another fragment, that fragment's combinations become alike too, and a group of k_i tuples is
associated with k_i groups there, whose k_i·k_j tuples must all differ: they may not fill more
than 1/(k_i·k_j) of the cell. Within a cell the order is random, so tuples that may not meet are
not neighbours, and every group of the cell is as good for utility as any other.

What an attribute promises. Groups mix the values of one fragment among their tuples. A query
on x in this fragment and y in another is wrong by how far x and y vary *together* within the
groups, so it is enough that the tuples agree in x or in y, whichever fragment holds y. The error
of a query is taken as the product over its attributes of how much of each one's variation is left
in the cell, and an attribute promises the sum of the errors of the queries that ask about it.
"""

from __future__ import annotations

import numpy as np

from sherd.methods.compiled import kernel


@kernel
def _varies(levels, score, nominal, order, low, high, counts):  # type: ignore[no-untyped-def]
    """How much an attribute varies in a cell: its deviation, or Gini's index for labels."""
    size = high - low
    if nominal:
        counts[: score.size] = 0
        for i in range(low, high):
            counts[levels[order[i]]] += 1
        same = 0.0
        for level in range(score.size):
            same += (counts[level] / size) ** 2
        return 1.0 - same
    total = 0.0
    squares = 0.0
    for i in range(low, high):
        x = score[levels[order[i]]]
        total += x
        squares += x * x
    return np.sqrt(max(0.0, squares / size - (total / size) ** 2))


@kernel
def _promise(left, asked, weights, wish):  # type: ignore[no-untyped-def]
    """What each attribute promises, of which the share ``left`` of its variation is in a cell."""
    wish[:] = 0.0
    for q in range(weights.size):
        error = weights[q]
        for a in range(left.size):
            if asked[q, a]:
                error *= left[a]
        for a in range(left.size):
            if asked[q, a]:
                wish[a] += error


@kernel
def _cut(levels, distinct, order, low, high, counts):  # type: ignore[no-untyped-def]
    """The last level of the lower half, cut as near to the middle as levels allow; or -1."""
    counts[:distinct] = 0
    for i in range(low, high):
        counts[levels[order[i]]] += 1
    half = (high - low) / 2
    best, where, below = float(high - low), -1, 0
    for level in range(distinct - 1):
        if counts[level] == 0:
            continue
        below += counts[level]
        if below < high - low and abs(below - half) < best:
            best, where = abs(below - half), level
    return where


@kernel
def _diverse(codes, order, low, high, limits, seen, base):  # type: ignore[no-untyped-def]
    """Whether no combination of an aspect's values has more than 1/limit of the cell.

    Counts begin above ``base[0]``, which what was counted before does not exceed.
    """
    for a in range(limits.size):
        most = (high - low) / limits[a]
        start = base[0]
        base[0] += high - low
        for i in range(low, high):
            code = codes[a, order[i]]
            seen[code] = max(seen[code], start) + 1
            if seen[code] - start > most:
                return False
    return True


@kernel
def _part(levels, where, order, spare, low, high):  # type: ignore[no-untyped-def]
    """Put the lower half of a cell before the upper in ``spare``; where the upper begins."""
    middle, end = low, high
    for i in range(low, high):
        if levels[order[i]] <= where:
            spare[middle] = order[i]
            middle += 1
        else:
            end -= 1
            spare[end] = order[i]
    return middle


@kernel
def split(order, levels, distinct, scores, nominal, asked, weights, codes, limits, held, least):  # type: ignore[no-untyped-def]
    """Reorder ``order`` (a random permutation) into cells; returns where each begins.

    ``levels[a]`` are the attributes as small codes with ``distinct[a]`` levels, whose
    places on a scale are ``scores[a]``; query ``q`` weighs ``weights[q]`` and asks about
    attribute a where ``asked[q, a]``; ``codes`` are the fragment's aspects and then those of
    others, ``limits`` how many tuples must differ in each, and the first ``held[a]`` of them are
    looked at when a cell is split by attribute a.
    """
    attributes = levels.shape[0]
    counts = np.zeros(scores.shape[1] if attributes else 1, np.int64)
    seen = np.zeros(codes.max() + 1 if codes.size else 1, np.int64)
    base = np.zeros(1, np.int64)
    spare = np.empty_like(order)
    whole = np.empty(attributes)
    for a in range(attributes):
        whole[a] = _varies(
            levels[a], scores[a, : distinct[a]], nominal[a], order, 0, order.size, counts
        )
    stack = [(0, order.size)]
    starts = np.zeros(order.size // least + 1, np.int64)
    cells = 0
    wish = np.empty(attributes)
    left = np.empty(attributes)
    while len(stack) > 0:
        low, high = stack.pop()
        done = False
        if high - low >= 2 * least:
            for a in range(attributes):
                varies = _varies(
                    levels[a], scores[a, : distinct[a]], nominal[a], order, low, high, counts
                )
                left[a] = varies / whole[a] if whole[a] > 0 else 0.0
            _promise(left, asked, weights, wish)
            for a in np.argsort(-wish):
                if wish[a] <= 0 or done:
                    break
                where = _cut(levels[a], distinct[a], order, low, high, counts)
                if where < 0:
                    continue
                middle = _part(levels[a], where, order, spare, low, high)
                if (
                    min(middle - low, high - middle) < least
                    or not _diverse(codes, spare, low, middle, limits[: held[a]], seen, base)
                    or not _diverse(codes, spare, middle, high, limits[: held[a]], seen, base)
                ):
                    continue
                order[low:high] = spare[low:high]
                stack.append((middle, high))
                stack.append((low, middle))
                done = True
        if not done:
            starts[cells] = low
            cells += 1
    return starts[:cells]
