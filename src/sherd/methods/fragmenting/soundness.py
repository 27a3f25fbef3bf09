"""The last look at an association before it leaves: every property by enumeration, compiled.

It reads the groups of the tuples only, none of the structures placement works with.
"""

from __future__ import annotations

import numpy as np

from sherd.methods.compiled import kernel


@kernel
def group_members(place, groups):  # type: ignore[no-untyped-def]
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


@kernel
def _alike(codes, start, tuples, g, h):  # type: ignore[no-untyped-def]
    for i in range(start[g], start[g + 1]):
        for j in range(start[h], start[h + 1]):
            if codes[tuples[i]] == codes[tuples[j]]:
                return True
    return False


@kernel
def _repeats(values, start, tuples, g):  # type: ignore[no-untyped-def]
    """Whether two members of a group have the same value."""
    for i in range(start[g], start[g + 1]):
        for j in range(start[g], i):
            if values[tuples[i]] == values[tuples[j]]:
                return True
    return False


@kernel
def _wrong_groups(p, s, lists):  # type: ignore[no-untyped-def]
    """Groups too small, with alike members, or that meet a group twice."""
    wrong = 0
    for f in range(p.sizes.size):
        start, tuples = lists[f]
        for g in range(p.groups[f]):
            if 0 < start[g + 1] - start[g] < p.sizes[f]:
                wrong += 1
            for e in range(p.sizes.size):
                if e != f and _repeats(s.place[:, e], start, tuples, g):
                    wrong += 1
            for a in range(p.aspects_from[f], p.aspects_from[f + 1]):
                if _repeats(p.codes[:, a], start, tuples, g):
                    wrong += 1
    return wrong


@kernel
def _wrong_reaches(p, s, lists, r):  # type: ignore[no-untyped-def]
    """Groups of a reach's source that reach a value twice."""
    z, a = p.reach_source[r], p.reach_aspect[r]
    f = p.aspect_fragment[a]
    start, tuples = lists[z]
    other_start, other = lists[f]
    by_group = np.empty(other.size, np.int32)  # a group's values side by side in memory
    for j in range(other.size):
        by_group[j] = p.codes[other[j], a]
    values = np.empty(p.capacity[z] * p.capacity[f], np.int32)
    wrong = 0
    for h in range(p.groups[z]):
        count = 0
        twice = False
        for i in range(start[h], start[h + 1]):
            g = s.place[tuples[i], f]
            for j in range(other_start[g], other_start[g + 1]):
                value = by_group[j]
                for b in range(count):
                    if values[b] == value:
                        twice = True
                values[count] = value
                count += 1
        if twice:
            wrong += 1
    return wrong


@kernel
def _rows_alike(p, s, lists, aspects, z, t, u):  # type: ignore[no-untyped-def]
    """Whether two rows that share a group of z are alike in all other parts of a constraint."""
    for a in aspects:
        f = p.aspect_fragment[a]
        if f != z:
            start, tuples = lists[f]
            if not _alike(p.codes[:, a], start, tuples, s.place[t, f], s.place[u, f]):
                return False
    return True


@kernel
def _wrong_wide(p, s, lists, w):  # type: ignore[no-untyped-def]
    """Pairs of rows that break Property 4.6 for a constraint over three or more fragments."""
    aspects = p.wide_aspects[p.wide_from[w] : p.wide_from[w + 1]]
    wrong = 0
    for own in aspects:
        z = p.aspect_fragment[own]
        start, tuples = lists[z]
        for h in range(p.groups[z]):
            for i in range(start[h], start[h + 1]):
                for j in range(start[h], i):
                    if _rows_alike(p, s, lists, aspects, z, tuples[i], tuples[j]):
                        wrong += 1
    return wrong


@kernel
def sound(p, s):  # type: ignore[no-untyped-def]
    """How often a property is broken: size, heterogeneity, or a half-placed tuple."""
    wrong = 0
    for f in range(p.sizes.size):
        for t in range(s.place.shape[0]):
            if (s.place[t, f] < 0) != (s.place[t, 0] < 0):
                wrong += 1
    if wrong:
        return wrong
    lists = [group_members(s.place[:, f], p.groups[f]) for f in range(p.sizes.size)]
    wrong += _wrong_groups(p, s, lists)
    for r in range(p.reach_source.size):
        wrong += _wrong_reaches(p, s, lists, r)
    for w in range(p.wide_from.size - 1):
        wrong += _wrong_wide(p, s, lists, w)
    return wrong
