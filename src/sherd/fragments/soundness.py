"""The last look at an association before it leaves: every property by enumeration, compiled.

It reads the groups of the tuples only, none of the structures placement works with.
"""

from __future__ import annotations

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _members(place, groups):  # type: ignore[no-untyped-def]
    """The tuples of every group: where each group starts, and the tuples in that order."""
    start = np.zeros(groups + 1, np.int64)
    for t in range(place.size):
        if place[t] >= 0:
            start[place[t] + 1] += 1
    for g in range(groups):
        start[g + 1] += start[g]
    where = start[:-1].copy()
    tuples = np.empty(start[groups], np.int64)
    for t in range(place.size):
        if place[t] >= 0:
            tuples[where[place[t]]] = t
            where[place[t]] += 1
    return start, tuples


@numba.njit(cache=True, nogil=True)
def _alike(codes, start, tuples, g, h):  # type: ignore[no-untyped-def]
    for i in range(start[g], start[g + 1]):
        for j in range(start[h], start[h + 1]):
            if codes[tuples[i]] == codes[tuples[j]]:
                return True
    return False


@numba.njit(cache=True, nogil=True)
def sound(p, s):  # type: ignore[no-untyped-def]
    """How many groups break a property: size, heterogeneity, or a half-placed tuple."""
    fragments = p.sizes.size
    wrong = 0
    for f in range(fragments):
        for t in range(s.place.shape[1]):
            if (s.place[f, t] < 0) != (s.place[0, t] < 0):
                wrong += 1
    if wrong:
        return wrong
    lists = [_members(s.place[f], p.groups[f]) for f in range(fragments)]
    for f in range(fragments):
        start, tuples = lists[f]
        for g in range(p.groups[f]):
            if 0 < start[g + 1] - start[g] < p.sizes[f]:
                wrong += 1
            for e in range(fragments):
                if e != f:
                    for i in range(start[g], start[g + 1]):
                        for j in range(start[g], i):
                            if s.place[e, tuples[i]] == s.place[e, tuples[j]]:
                                wrong += 1
        for a in range(p.aspects_from[f], p.aspects_from[f + 1]):
            for g in range(p.groups[f]):
                for i in range(start[g], start[g + 1]):
                    for j in range(start[g], i):
                        if p.codes[a, tuples[i]] == p.codes[a, tuples[j]]:
                            wrong += 1
    for r in range(p.reach_source.size):
        z, a = p.reach_source[r], p.reach_aspect[r]
        f = p.aspect_fragment[a]
        start, tuples = lists[z]
        other_start, other = lists[f]
        values = np.empty(p.capacity[z] * p.capacity[f], np.int64)
        for h in range(p.groups[z]):
            count = 0
            for i in range(start[h], start[h + 1]):
                g = s.place[f, tuples[i]]
                for j in range(other_start[g], other_start[g + 1]):
                    values[count] = p.codes[a, other[j]]
                    count += 1
            reached = np.sort(values[:count])
            for i in range(1, count):
                if reached[i] == reached[i - 1]:
                    wrong += 1
                    break
    for w in range(p.wide_from.size - 1):
        aspects = p.wide_aspects[p.wide_from[w] : p.wide_from[w + 1]]
        for own in aspects:
            z = p.aspect_fragment[own]
            start, tuples = lists[z]
            for h in range(p.groups[z]):
                for i in range(start[h], start[h + 1]):
                    for j in range(start[h], i):
                        apart = False
                        for a in aspects:
                            f = p.aspect_fragment[a]
                            if f == z:
                                continue
                            other_start, other = lists[f]
                            if not _alike(
                                p.codes[a],
                                other_start,
                                other,
                                s.place[f, tuples[i]],
                                s.place[f, tuples[j]],
                            ):
                                apart = True
                                break
                        if not apart:
                            wrong += 1
    return wrong
