"""Placing tuples into groups, compiled: the search of Figures 8 and 9 and what follows it.

The published search tries groups outward from the optimal one, to the right before the
left, around the end of the order. Mended here: it reaches the farthest group (line 6),
keeps the partial assignment (line 16), asks afresh at every candidate (line 9), tries the
left candidate after a failed recursion (line 10), re-checks the rows already associated
with a group that grows, and stops at a budget. Full groups are jumped over.
"""

from __future__ import annotations

import numpy as np

from sherd.methods.compiled import borrowing_kernel, inlined_kernel, kernel
from sherd.methods.fragmenting.heterogeneity_kernels import fits, join, leave, spread, wide_fits

_TRIES_PER_RADIUS = 16
_AHEAD = 8


@borrowing_kernel
def _random(seed):  # type: ignore[no-untyped-def]
    """The next 64 bits of a splitmix generator: for the choice of probes only."""
    seed[0] += np.uint64(0x9E3779B97F4A7C15)
    x = seed[0]
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


@borrowing_kernel
def _find(up, at):  # type: ignore[no-untyped-def]
    while up[at] != at:
        up[at] = up[up[at]]
        at = up[at]
    return at


@inlined_kernel
def _forth(groups, first, home, wrap, start, up):  # type: ignore[no-untyped-def]
    """The distance to the next open group to the right, from ``start`` on; or -1."""
    where = home + start
    if where < groups:
        free = _find(up, first + where) - first
        if free < groups:
            return free - home
        where = np.int64(groups)
    if wrap:
        free = _find(up, first + where - groups) - first
        if free < home:
            return free + groups - home
    return np.int64(-1)


@inlined_kernel
def _back(groups, first, home, wrap, start, down):  # type: ignore[no-untyped-def]
    """The distance to the next open group to the left, from ``start`` on; or -1."""
    where = home - start
    if where >= 0:
        free = _find(down, first + where) - first
        if free >= 0:
            return home - free
        where = np.int64(-1)
    if wrap:
        free = _find(down, first + where + groups) - first
        if free > home:
            return home + groups - free
    return np.int64(-1)


@inlined_kernel
def _probe(groups, first, home, tried, near, seed, up, down):  # type: ignore[no-untyped-def]
    """An open group at random; with ``near`` within a radius that doubles step by step."""
    radius = groups
    if near > 0:
        radius = min(radius, np.int64(near) << min(40, tried // _TRIES_PER_RADIUS))
    low, high = max(0, home - radius), min(groups - 1, home + radius)
    start = low + np.int64(_random(seed) % np.uint64(high - low + 1))
    free = _find(up, first + start) - first
    if free <= high:
        return free
    free = _find(down, first + start) - first
    return free if free >= low else np.int64(-1)


@inlined_kernel
def _next(p, f, home, wrap, right, left, step, seed, up, down, window, near):  # type: ignore[no-untyped-def]
    """The next group to try in fragment f, nearest first, then probes; -1 for none.

    ``right[f]`` and ``left[f]`` are the distances to look from; ``step[f]`` counts tries.
    """
    groups = np.int64(p.groups[f])
    first = p.group_from[f] + 2 * f + 1  # union-find rows have one sentinel at each end
    if step[f] < window:
        limit = groups // 2 if wrap else groups - 1
        forth = _forth(groups, first, home, wrap, right[f], up)
        back = np.int64(left[f])  # no group to the left is nearer than this
        if forth < 0 or forth > back:
            back = _back(groups, first, home, wrap, left[f], down)
        if 0 <= forth <= limit and (back < 0 or forth <= back):
            right[f] = forth + 1
            step[f] += 1
            there = home + forth
            return there if there < groups else there - groups
        if 0 <= back <= limit:
            left[f] = back + 1
            step[f] += 1
            there = home - back
            return there if there >= 0 else there + groups
        step[f] = window
    step[f] += 1
    return _probe(groups, first, home, step[f] - 1 - window, near, seed, up, down)


@inlined_kernel
def _search(p, s, t, home, most, up, down, seed, ahead, window, probes, near, budget, work):  # type: ignore[no-untyped-def]
    """Find_Assignment: put t into a group of every fragment, or leave everything as it was."""
    chosen, right, left, step = work[0], work[1], work[2], work[3]
    fragments = p.sizes.size
    chosen[:] = -1
    f = 0
    right[0], left[0], step[0] = 0, 1, 0
    tries = 0
    work[4, 0] = budget  # what is spent where nothing is found
    while f >= 0:
        g = -1
        while step[f] < window + probes and tries < budget:
            tries += 1
            g = _next(p, f, home[f, t], not ahead, right, left, step, seed, up, down, window, near)
            if g >= 0 and fits(p, s, t, f, g, chosen, most[f], ahead):
                break
            g = -1
        if g < 0:
            f -= 1
            if f >= 0:
                chosen[f] = -1
            if tries >= budget:
                return False
            continue
        chosen[f] = g
        if f + 1 < fragments:
            f += 1
            right[f], left[f], step[f] = 0, 1, 0
            continue
        for e in range(fragments):
            join(p, s, t, e, chosen[e])
        if p.wide_from.size == 1 or wide_fits(p, s, t):
            spread(p, s, t)
            work[4, 0] = tries
            return True
        for e in range(fragments):
            leave(p, s, t, e)
        chosen[f] = -1
    work[4, 0] = tries
    return False


@inlined_kernel
def _close(p, s, f, g, most, up, down):  # type: ignore[no-untyped-def]
    if s.size[p.group_from[f] + g] >= most[f]:
        at = p.group_from[f] + 2 * f + 1 + g
        up[at] = at + 1
        down[at] = at - 1


@inlined_kernel
def _touch(p, s, home, up, down, t):  # type: ignore[no-untyped-def]
    """Read what placing t will ask for first, so that it has come from memory by then."""
    touched = np.uint64(0)
    for f in range(p.sizes.size):
        g = home[f, t]
        at = p.group_from[f] + g
        touched += np.uint64(s.size[at]) + s.filters[at, 0]
        touched += np.uint64(s.members[p.member_from[f] + g * p.capacity[f]])
        touched += np.uint64(up[at + 2 * f + 1]) + np.uint64(down[at + 2 * f + 1])
    return touched


@borrowing_kernel
def _place_all(p, s, order, home, most, up, down, seed, ahead, steps, work, total):  # type: ignore[no-untyped-def]
    """Place one tuple after the other; how many failed, and what nobody needs of ``_touch``."""
    window, probes, near, budget = steps
    failed = 0
    touched = np.uint64(0)
    for at in range(order.size):
        t = order[at]
        if at + _AHEAD < order.size:
            touched += _touch(p, s, home, up, down, order[at + _AHEAD])
        if s.place[t, 0] >= 0:
            continue
        if total <= 0:
            failed += 1
            continue
        placed = _search(
            p, s, t, home, most, up, down, seed, ahead, window, probes, near, budget, work
        )
        total -= work[4, 0]
        if placed:
            for f in range(p.sizes.size):
                _close(p, s, f, s.place[t, f], most, up, down)
        else:
            failed += 1
    return failed, touched


@kernel
def place(p, s, order, home, most, live, seed, ahead, window, probes, near, budget, total):  # type: ignore[no-untyped-def]
    """Steps 2 and 3: place every tuple of ``order`` that has no group; say how many failed.

    ``most[f]`` is the largest size a group may reach; with ``live`` only groups that are
    not empty are tried. With ``ahead`` the search does not go round the end of the order
    and refuses a group at once that already reaches the tuple's values elsewhere. After
    ``total`` tries the rest are given up: a grouping that fits takes a small part of that.
    """
    fragments = p.sizes.size
    rows = p.group_from[fragments - 1] + p.groups[fragments - 1] + 2 * fragments
    up = np.arange(rows).astype(np.int32)
    down = np.arange(rows).astype(np.int32)
    for f in range(fragments):
        for g in range(p.groups[f]):
            _close(p, s, f, g, most, up, down)
            if live and s.size[p.group_from[f] + g] == 0:
                at = p.group_from[f] + 2 * f + 1 + g
                up[at] = at + 1
                down[at] = at - 1
    work = np.empty((5, fragments), np.int64)
    steps = window, probes, near, budget
    failed, _ = _place_all(p, s, order, home, most, up, down, seed, ahead, steps, work, total)
    return failed


@borrowing_kernel
def _move(p, s, t, f, g, most, chosen):  # type: ignore[no-untyped-def]
    """Move t to group g of fragment f if every property still holds."""
    old = s.place[t, f]
    for e in range(p.sizes.size):
        chosen[e] = s.place[t, e]
    chosen[f] = -1
    leave(p, s, t, f)
    if fits(p, s, t, f, g, chosen, most, True):
        join(p, s, t, f, g)
        if wide_fits(p, s, t):
            spread(p, s, t)
            return True
        leave(p, s, t, f)
    join(p, s, t, f, old)
    return False


@borrowing_kernel
def _fill(p, s, f, g, window, chosen):  # type: ignore[no-untyped-def]
    """Bring an under-quota group up to its size with members of over-quota ones nearby."""
    k = p.sizes[f]
    for distance in range(1, window + 1):
        for side in range(2):
            h = g + distance if side == 0 else g - distance
            if h < 0 or h >= p.groups[f]:
                continue
            i = 0
            while s.size[p.group_from[f] + h] > k and i < s.size[p.group_from[f] + h]:
                t = s.members[p.member_from[f] + h * p.capacity[f] + i]
                if not _move(p, s, t, f, g, k, chosen):
                    i += 1
                if s.size[p.group_from[f] + g] >= k:
                    return True
    return False


@borrowing_kernel
def _dissolve(p, s, t, f, g, wrap, window, probes, seed, chosen):  # type: ignore[no-untyped-def]
    """Move t from the under-quota group g to one that has its quota: near, then anywhere."""
    k = p.sizes[f]
    groups = p.groups[f]
    for step in range(2 * window + probes):
        if step < 2 * window:
            distance = step // 2 + 1
            h = g + distance if step % 2 == 0 else g - distance
            if wrap:
                h %= groups
            if h < 0 or h >= groups:
                continue
        else:
            h = np.int64(_random(seed) % np.uint64(groups))
        if h == g or s.size[p.group_from[f] + h] < k:
            continue
        if _move(p, s, t, f, h, p.capacity[f], chosen):
            return True
    return False


@kernel
def settle(p, s, fill, wrap, window, probes, seed):  # type: ignore[no-untyped-def]
    """Step 4: no group may stay under its quota; returns how many tuples were taken out.

    With ``fill`` a group is first filled from over-quota groups. Lines 41 to 45 of the
    published text run only where a reassignment failed.
    """
    fragments = p.sizes.size
    total = p.group_from[fragments - 1] + p.groups[fragments - 1]
    waiting = np.zeros(total, np.bool_)
    queue = [np.int64(0) for _ in range(0)]
    for f in range(fragments):
        for g in range(p.groups[f]):
            at = p.group_from[f] + g
            if 0 < s.size[at] < p.sizes[f]:
                queue.append(at)
                waiting[at] = True
    chosen = np.empty(fragments, np.int64)
    removed = 0
    while len(queue) > 0:
        at = queue.pop()
        waiting[at] = False
        f = fragments - 1
        while p.group_from[f] > at:
            f -= 1
        g = at - p.group_from[f]
        if s.size[at] >= p.sizes[f] or s.size[at] == 0:
            continue
        if fill and _fill(p, s, f, g, window, chosen):
            continue
        while s.size[at] > 0:
            t = s.members[p.member_from[f] + g * p.capacity[f]]
            if _dissolve(p, s, t, f, g, wrap, window, probes, seed, chosen):
                continue
            removed += 1
            for e in range(fragments):
                other = p.group_from[e] + s.place[t, e]
                leave(p, s, t, e)
                if 0 < s.size[other] < p.sizes[e] and not waiting[other] and other != at:
                    queue.append(other)
                    waiting[other] = True
    return removed
