"""The compiled core of loose associations: heterogeneity checks and the state they read.

Notation: a tuple ``t`` of the table has one group in every fragment ``f``; the tuples of a
group are its *members*. An *aspect* is the part of a constraint that lies in one fragment,
with an integer code for each tuple's combination of values. A *reach* (z, a) says that the
values of aspect ``a`` must all differ among the groups that one group of fragment ``z`` is
associated with: for a constraint over two fragments that is Properties 4.4, 4.5 and 4.6
together. Constraints over three or more fragments (*wide* ones) are checked row by row.

Every group keeps its members only. What a group reaches is enumerated when needed, behind
a 64-bit filter that may say "perhaps" wrongly but never "no".
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from sherd.methods.compiled import borrowing_kernel, inlined_kernel


class Problem(NamedTuple):
    """What does not change: codes, aspects, reaches and where each group's members lie."""

    codes: Any  # int32[tuple, aspect]
    aspect_fragment: Any  # int32[aspect]
    aspects_from: Any  # int32[fragment + 1]: aspects are sorted by fragment
    reach_source: Any  # int32[reach]
    reach_aspect: Any  # int32[reach]
    wide_from: Any  # int32[wide + 1]
    wide_aspects: Any  # int32[...]
    pair_left: Any  # int32[pair]: fragments whose groups may meet only once
    pair_right: Any
    sizes: Any  # int32[fragment]: k_i
    capacity: Any  # int32[fragment]: the most members a group can hold
    groups: Any  # int32[fragment]: how many groups
    group_from: Any  # int64[fragment]: where a fragment's groups start
    member_from: Any  # int64[fragment]: where its members start
    aspect_filter_from: Any  # int64[aspect]: where its fragment's groups start
    aspect_filter: Any  # int32[aspect]: which of a group's filters it is
    reach_filter_from: Any  # int64[reach]: where its source's groups start
    reach_filter: Any  # int32[reach]


class State(NamedTuple):
    """What placement changes."""

    members: Any  # int32[...]
    size: Any  # int32[group]
    place: Any  # int32[tuple, fragment]: the group, -1 for none
    filters: Any  # uint64[group, filter]: a group's filters side by side in memory


@inlined_kernel
def _bit(value):  # type: ignore[no-untyped-def]
    mixed = np.uint64(value) * np.uint64(0x9E3779B97F4A7C15)
    return np.uint64(1) << (mixed >> np.uint64(58))


@borrowing_kernel
def _reaches(p, s, r, h, value):  # type: ignore[no-untyped-def]
    """Whether group h of the reach's source is associated with a tuple of that value."""
    z, a = p.reach_source[r], p.reach_aspect[r]
    f = p.aspect_fragment[a]
    start = p.member_from[z] + h * p.capacity[z]
    for i in range(s.size[p.group_from[z] + h]):
        g = s.place[s.members[start + i], f]
        if g < 0:
            continue
        other = p.member_from[f] + g * p.capacity[f]
        for j in range(s.size[p.group_from[f] + g]):
            if p.codes[s.members[other + j], a] == value:
                return True
    return False


@borrowing_kernel
def _shares_value(p, s, r, h, t, g):  # type: ignore[no-untyped-def]
    """The same as ``_collides``, member by member."""
    a = p.reach_aspect[r]
    f = p.aspect_fragment[a]
    seen = s.filters[p.reach_filter_from[r] + h, p.reach_filter[r]]
    start = p.member_from[f] + g * p.capacity[f]
    for i in range(s.size[p.group_from[f] + g]):
        m = s.members[start + i]
        if m != t:
            value = p.codes[m, a]
            if seen & _bit(value) and _reaches(p, s, r, h, value):
                return True
    return False


@inlined_kernel
def _collides(p, s, r, h, t, g):  # type: ignore[no-untyped-def]
    """Whether group h of the source already reaches a value that group g has beside t's."""
    a = p.reach_aspect[r]
    reached = s.filters[p.reach_filter_from[r] + h, p.reach_filter[r]]
    perhaps = reached & s.filters[p.aspect_filter_from[a] + g, p.aspect_filter[a]]
    return perhaps != 0 and _shares_value(p, s, r, h, t, g)


@inlined_kernel
def fits(p, s, t, f, g, chosen, most, ahead):  # type: ignore[no-untyped-def]  # noqa: C901
    """Whether tuple t may join group g of fragment f beside the groups chosen so far.

    ``chosen[e]`` is its group in fragment e, or -1. With ``ahead`` a group is refused as soon as it
    reaches the tuple's value in a fragment still to be chosen. Wide constraints are not checked.
    """
    members = s.size[p.group_from[f] + g]
    if members >= most:
        return False
    start = p.member_from[f] + g * p.capacity[f]
    for a in range(p.aspects_from[f], p.aspects_from[f + 1]):
        value = p.codes[t, a]
        if s.filters[p.aspect_filter_from[a] + g, p.aspect_filter[a]] & _bit(value):
            for i in range(members):
                if p.codes[s.members[start + i], a] == value:
                    return False
    for r in range(p.reach_source.size):
        z, a = p.reach_source[r], p.reach_aspect[r]
        e = p.aspect_fragment[a]
        if e == f:
            # the group grows by a value: no group associated with it may reach that value
            value = p.codes[t, a]
            bit = _bit(value)
            for i in range(members):
                h = s.place[s.members[start + i], z]
                if (
                    h >= 0
                    and s.filters[p.reach_filter_from[r] + h, p.reach_filter[r]] & bit
                    and _reaches(p, s, r, h, value)
                ):
                    return False
            if chosen[z] >= 0:
                if s.filters[
                    p.reach_filter_from[r] + chosen[z], p.reach_filter[r]
                ] & bit and _reaches(p, s, r, chosen[z], value):
                    return False
                if _collides(p, s, r, chosen[z], t, g):
                    return False
        elif z == f:
            # wherever t goes in fragment e, group g will reach its value there
            value = p.codes[t, a]
            if (
                (ahead or chosen[e] >= 0)
                and s.filters[p.reach_filter_from[r] + g, p.reach_filter[r]] & _bit(value)
                and _reaches(p, s, r, g, value)
            ):
                return False
            if chosen[e] >= 0 and _collides(p, s, r, g, t, chosen[e]):
                return False
    for q in range(p.pair_left.size):
        e = -1
        if p.pair_left[q] == f:
            e = p.pair_right[q]
        elif p.pair_right[q] == f:
            e = p.pair_left[q]
        if e >= 0 and chosen[e] >= 0:
            for i in range(members):
                if s.place[s.members[start + i], e] == chosen[e]:
                    return False
    return True


@inlined_kernel
def join(p, s, t, f, g):  # type: ignore[no-untyped-def]
    """Make t a member of group g of fragment f, filters of the group included."""
    at = p.group_from[f] + g
    s.members[p.member_from[f] + g * p.capacity[f] + s.size[at]] = t
    s.size[at] += 1
    s.place[t, f] = g
    for a in range(p.aspects_from[f], p.aspects_from[f + 1]):
        s.filters[p.aspect_filter_from[a] + g, p.aspect_filter[a]] |= _bit(p.codes[t, a])


@borrowing_kernel
def leave(p, s, t, f):  # type: ignore[no-untyped-def]
    """Take t out of its group of fragment f; what others reach keeps a stale "perhaps"."""
    g = s.place[t, f]
    at = p.group_from[f] + g
    start = p.member_from[f] + g * p.capacity[f]
    for i in range(s.size[at]):
        if s.members[start + i] == t:
            s.members[start + i] = s.members[start + s.size[at] - 1]
            break
    s.size[at] -= 1
    s.place[t, f] = -1
    for a in range(p.aspects_from[f], p.aspects_from[f + 1]):
        seen = np.uint64(0)
        for i in range(s.size[at]):
            seen |= _bit(p.codes[s.members[start + i], a])
        s.filters[p.aspect_filter_from[a] + g, p.aspect_filter[a]] = seen


@inlined_kernel
def spread(p, s, t):  # type: ignore[no-untyped-def]
    """Tell every group associated with t's groups what it now reaches."""
    for r in range(p.reach_source.size):
        z, a = p.reach_source[r], p.reach_aspect[r]
        f = p.aspect_fragment[a]
        g, h = s.place[t, f], s.place[t, z]
        base, column = p.reach_filter_from[r], p.reach_filter[r]
        s.filters[base + h, column] |= s.filters[p.aspect_filter_from[a] + g, p.aspect_filter[a]]
        bit = _bit(p.codes[t, a])
        start = p.member_from[f] + g * p.capacity[f]
        for i in range(s.size[p.group_from[f] + g]):
            other = s.place[s.members[start + i], z]
            if other >= 0:
                s.filters[base + other, column] |= bit


@borrowing_kernel
def _apart(p, s, a, g, h):  # type: ignore[no-untyped-def]
    """Whether groups g and h of the aspect's fragment share no value of the aspect."""
    f = p.aspect_fragment[a]
    if g == h:
        return False
    base, column = p.aspect_filter_from[a], p.aspect_filter[a]
    if not s.filters[base + g, column] & s.filters[base + h, column]:
        return True
    left = p.member_from[f] + g * p.capacity[f]
    right = p.member_from[f] + h * p.capacity[f]
    for i in range(s.size[p.group_from[f] + g]):
        value = p.codes[s.members[left + i], a]
        for j in range(s.size[p.group_from[f] + h]):
            if p.codes[s.members[right + j], a] == value:
                return False
    return True


@borrowing_kernel
def _rows_apart(p, s, w, z, t, u):  # type: ignore[no-untyped-def]
    """Property 4.6, restricted to the constraint's fragments, for two rows that share z."""
    for at in range(p.wide_from[w], p.wide_from[w + 1]):
        a = p.wide_aspects[at]
        f = p.aspect_fragment[a]
        if f == z:
            continue
        g, h = s.place[t, f], s.place[u, f]
        if g < 0 or h < 0 or _apart(p, s, a, g, h):
            return True
    return False


@borrowing_kernel
def wide_fits(p, s, t):  # type: ignore[no-untyped-def]
    """Whether every wide constraint holds around t, which has joined its groups already."""
    for w in range(p.wide_from.size - 1):
        for at in range(p.wide_from[w], p.wide_from[w + 1]):
            z = p.aspect_fragment[p.wide_aspects[at]]
            g = s.place[t, z]
            start = p.member_from[z] + g * p.capacity[z]
            for i in range(s.size[p.group_from[z] + g]):
                u = s.members[start + i]
                if u == t:
                    continue
                if not _rows_apart(p, s, w, z, t, u):
                    return False
                # t's value is new to group g: rows through g may now be alike in it
                for other in range(p.wide_from[w], p.wide_from[w + 1]):
                    y = p.aspect_fragment[p.wide_aspects[other]]
                    if y == z or s.place[u, y] < 0:
                        continue
                    begin = p.member_from[y] + s.place[u, y] * p.capacity[y]
                    for j in range(s.size[p.group_from[y] + s.place[u, y]]):
                        v = s.members[begin + j]
                        if v != u and not _rows_apart(p, s, w, y, u, v):
                            return False
    return True
