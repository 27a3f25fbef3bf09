"""Exact draws of floor(E · t / s) for a standard exponential E: the root of all noise.

P(floor(E·t/s) ≥ y) = P(E ≥ y·s/t) = exp(−y·s/t) for every whole y ≥ 0, so the floor is a
geometric variable with ratio exp(−s/t), and with a fair sign, where −0 is drawn again, it
is the discrete Laplace of scale t/s (the last step of Algorithm 2 of Canonne, Kamath and
Steinke, 2020). What differs from their algorithm is how E is drawn: theirs needs a run of
Bernoulli trials for every draw, this one mostly 64 random bits and a look-up.

Exactness. Every decision compares whole numbers, and a comparison that the bits drawn so
far leave open draws more bits until it is settled. No floating point takes part.

1.  *Cell* (``cells``). Let W be uniform on (0, 1): −ln W is a standard exponential,
    and it lies in cell i, [i/256, (i+1)/256), exactly if B(i+1) < W ≤ B(i) with
    B(i) = exp(−i/256). ``boundaries`` computes floor(B(i)·2^b) from bounds below and above
    that agree on it. B(i) is irrational for i ≥ 1, so a b-bit prefix of W other than that
    floor decides on which side W lies; an equal prefix gets another 64 bits. The first 16
    bits decide 97 draws in 100 by one look-up. Cells from 4096 on: E is memoryless, so
    4096 is added to a cell drawn afresh.
2.  *Rest.* Given its cell, E = i/256 + R where R has density proportional to exp(−r) on
    [0, 1/256), in every cell the same. Propose R uniform there and accept with
    probability exp(−R), by von Neumann's (1951) run of uniforms: with Z1, Z2, … uniform
    and Z0 = R, let n be the first index with Zn ≥ Z(n−1); then P(n > m) = R^m/m!, so n is
    odd with probability exp(−R). Eight bits show Z1 ≥ 1/256 > R for all but one draw in
    256. A refused proposal draws the cell again as well: the chance of refusal is the same
    in every cell, so the cell's distribution does not change.
3.  *Floor.* With 39 bits of R known, E·t lies in an interval; where that holds a whole
    number inside, 64 more bits are drawn, and then as many as it takes.
    floor(E·t/s) = floor(floor(E·t)/s) for whole s.

Limits: t ≤ ``MOST_NUMERATOR`` = 2^56 and s < 2^63. E is cut off below 128, so that
E·t < 2^63 and nothing can wrap. That is the one departure from the exact distribution: an
event of probability exp(−128) < 10^−55 a draw, which a proof of pure ε-differential
privacy has to grant to any noise of bounded width.

The time of a draw depends on what is drawn, so anybody who can time a single draw learns
something about it; what can be timed of a release is the sum of many draws.

Notation: t, s numerator and denominator of the scale; a the bits of E known, in units of
2^−56; x, low the whole and the fractional part of E·t;
W uniform on (0, 1), B(i) = exp(−i/256); the cell is the number of i ≥ 1 with W < B(i).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Source = Callable[[int], Words]


MOST_NUMERATOR = 2**56
MOST_DENOMINATOR = 2**63 - 1
BLOCK = 1 << 14

_FRACTION_MASK = np.uint64(2**56 - 1)
_REST_MASK = np.uint64(2**39 - 1)
_HALF, _LOW_32 = np.uint64(32), np.uint64(2**32 - 1)


def draw(
    source: Source, t: Words | int, s: int, n: int, *, signed: bool, block: int = BLOCK
) -> NDArray[np.int64]:
    """Draw n floors of E·t/s; where ``signed``, with a fair sign and −0 drawn again.

    ``t`` is one numerator or n of them. Works in blocks that fit the cache; what is
    refused is collected over all blocks and drawn again.
    """
    out = np.empty(n, dtype=np.int64)
    if isinstance(t, int):
        per_draw, largest = None, t
        scale = np.uint64(t)
    else:
        per_draw, largest = t, int(t.max(initial=0))
    refused = []
    for start in range(0, n, block):
        stop = min(start + block, n)
        part = scale if per_draw is None else per_draw[start:stop]
        out[start:stop], ok = _trial(source, part, largest, s, stop - start, signed)
        refused.append(np.flatnonzero(~ok) + start)
    pending = np.concatenate(refused) if refused else np.empty(0, dtype=np.int64)
    while pending.size:
        again = []
        for start in range(0, pending.size, block):
            rows = pending[start : start + block]
            part = scale if per_draw is None else per_draw[rows]
            out[rows], ok = _trial(source, part, largest, s, rows.size, signed)
            again.append(rows[~ok])
        pending = np.concatenate(again)
    return out


def _trial(
    source: Source, t: Words | np.uint64, largest: int, s: int, n: int, signed: bool
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """One proposal for each of n draws, and which of them are accepted.

    The bits of a word, from the top: 16 for the cell, 8 for the first comparison of the
    run, 1 for the sign, 39 for the rest.
    """
    word = source(n)
    cell = cells(word >> np.uint64(48), source)
    rest = word & _REST_MASK
    ok, lazily = _accepted(word, rest, source)
    a = (cell << np.uint64(48)) | (rest << np.uint64(9))
    x = _floor(a, t, largest, s, source)
    for row, bits in lazily:
        factor = int(t[row]) if isinstance(t, np.ndarray) else int(t)
        x[row] = _exact_floor(int(cell[row]), bits, factor, s)
    value = x.view(np.int64)
    if signed:
        sign = ((word >> np.uint64(39)) & np.uint64(1)).view(np.int64)
        ok &= (value | (sign ^ 1)) != 0
        value = (value ^ -sign) + sign
    return value, ok


def _accepted(
    word: Words, rest: Words, source: Source
) -> tuple[NDArray[np.bool_], list[tuple[int, _Bits]]]:
    """Whether each run of uniforms below R has odd length, so with probability exp(−R).

    Also the rows whose R had to be known to more bits than ``rest`` holds, with it.
    """
    ok = np.ones(word.size, dtype=np.bool_)
    lazily: list[tuple[int, _Bits]] = []
    near = np.flatnonzero((word & np.uint64(0xFF << 40)) == 0)
    if near.size:
        first = source(near.size) >> np.uint64(25)  # Z1 in units of 2^-47, as R is
        below = first <= rest[near]
        near, first = near[below], first[below]
    if near.size:
        ok[near] = False
        second = source(near.size)
        longer = ((second >> np.uint64(17)) <= first) | (first == rest[near])
        for k in np.flatnonzero(longer):
            row = int(near[k])
            r = _Bits(int(rest[row]), 47, source)
            z1, z2 = _Bits(int(first[k]), 47, source), _Bits(int(second[k]), 64, source)
            ok[row] = _odd_run(r, z1, z2, source)
            if r.count > 47:
                lazily.append((row, r))
    return ok, lazily


def _floor(a: Words, t: Words | np.uint64, largest: int, s: int, source: Source) -> Words:
    """floor(E·t/s) where a·2^−56 ≤ E < (a + 2^9)·2^−56, drawing bits of E where needed."""
    if largest < 2**32:
        right = (a & _LOW_32) * t
        left = (a >> np.uint64(32)) * t + (right >> np.uint64(32))
        x = left >> np.uint64(24)
        low = ((left & np.uint64(2**24 - 1)) << np.uint64(32)) | (right & _LOW_32)
    else:
        high, low = multiply(a, t)
        x = (high << np.uint64(8)) | (low >> np.uint64(56))
        low &= _FRACTION_MASK
    # An interval wider than 1 always holds a whole number; the clamp keeps the shift legal.
    width = np.minimum(t, np.uint64(2**48)) << np.uint64(9)
    unsure = np.flatnonzero(low + width > np.uint64(2**56))
    if unsure.size:
        factor = t[unsure] if isinstance(t, np.ndarray) else t
        more = source(unsure.size)
        high, tail = multiply(more, factor)
        whole = high >> np.uint64(47)
        total = ((high << np.uint64(9)) | (tail >> np.uint64(55))) & _FRACTION_MASK
        total += low[unsure]
        x[unsure] += whole + (total >> np.uint64(56))
        # What is still unknown adds less than two units: one of rounding, one of E.
        for k in np.flatnonzero((total & _FRACTION_MASK) >= np.uint64(2**56 - 2)):
            known = int(a[unsure[k]])
            rest = ((known & (2**48 - 1)) >> 9 << 64) | int(more[k])
            one = int(factor[k]) if isinstance(factor, np.ndarray) else int(factor)
            bits = _Bits(rest, 47 + 64, source)
            x[unsure[k]] = _exact_floor(known >> 48, bits, one, 1)
    return x // np.uint64(s) if s > 1 else x


class _Bits:
    """A uniform number on [0, 1) of which ``count`` bits are known; more come on demand."""

    __slots__ = ("_source", "count", "value")

    def __init__(self, value: int, count: int, source: Source) -> None:
        self.value, self.count, self._source = value, count, source

    def more(self) -> None:
        """Learn 64 more bits."""
        self.value = (self.value << 64) | int(self._source(1)[0])
        self.count += 64

    def below(self, other: _Bits) -> bool:
        """Whether this number is smaller, drawing bits of both until they differ."""
        while True:
            shared = min(self.count, other.count)
            mine = self.value >> (self.count - shared)
            theirs = other.value >> (other.count - shared)
            if mine != theirs:
                return mine < theirs
            (self if self.count == shared else other).more()


def _odd_run(r: _Bits, z1: _Bits, z2: _Bits, source: Source) -> bool:
    """Whether the first n with Zn ≥ Z(n−1) is odd, Z0 = R."""
    if not z1.below(r):
        return True
    n, last, new = 2, z1, z2
    while new.below(last):
        n, last, new = n + 1, new, _Bits(0, 0, source)
    return n % 2 == 1


def _exact_floor(cell: int, rest: _Bits, t: int, s: int) -> int:
    """floor((cell/256 + R)·t/s), drawing bits of R until it is certain."""
    while True:
        least = ((cell << (rest.count - 8)) + rest.value) * t
        unit = s << rest.count
        if t == 0 or least // unit == (least + t - 1) // unit:
            return least // unit
        rest.more()


def multiply(a: Words, b: Words | np.uint64) -> tuple[Words, Words]:
    """The high and the low word of a·b.

    >>> high, low = multiply(np.array([2**63 + 1], dtype=np.uint64), np.uint64(6))
    >>> int(high[0]), int(low[0])
    (3, 6)
    """
    a_high, a_low = a >> _HALF, a & _LOW_32
    b_high, b_low = b >> _HALF, b & _LOW_32
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)  # at most (2^32-1)^2 + 2^32-1: no carry is lost
    other = a_low * b_high + (middle & _LOW_32)
    high = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW_32)


LAST_CELL = 2**15 - 1
"""The last cell; a draw beyond it is cut off here, so E < 128."""

TABLE = 4096
"""How many cells have a boundary in the table: those of E < 16."""

UNSURE = np.uint16(0xFFFF)
"""Marks a prefix of W that a boundary divides."""


def cells(first: Words, source: Source) -> Words:
    """The cell of each draw from the first 16 bits of its W, and more where needed."""
    guide, floors = _table()
    cell = guide[first]
    unsure = np.flatnonzero(cell == UNSURE)
    drawn = cell.astype(np.uint64)
    if unsure.size:
        prefix = (first[unsure] << np.uint64(48)) | (source(unsure.size) >> np.uint64(16))
        above = np.searchsorted(floors, prefix, side="right")
        equal = np.searchsorted(floors, prefix, side="left") != above
        passed = TABLE - above
        for row in np.flatnonzero(equal | (passed == TABLE)):
            passed[row] = _exact_cell(int(prefix[row]), source)
        drawn[unsure] = passed.astype(np.uint64)
    return drawn


def _exact_cell(prefix: int, source: Source) -> int:
    """The cell of a W whose first 64 bits are ``prefix``, drawing as many bits as it takes."""
    floors = _table()[1]
    passed = 0
    while True:
        place = int(np.searchsorted(floors, np.uint64(prefix), side="right"))
        cell = TABLE - place
        if place and int(floors[place - 1]) == prefix:
            cell = cell + 1 if _below(cell + 1, prefix, source) else cell
        passed += cell
        if cell < TABLE or passed > LAST_CELL:
            return min(passed, LAST_CELL)
        prefix = int(source(1)[0])


def _below(boundary: int, prefix: int, source: Source) -> bool:
    """Whether W < B(boundary), where the first 64 bits of both are equal."""
    bits = 64
    while True:
        bits += 64
        prefix = (prefix << 64) | int(source(1)[0])
        floor = boundaries(boundary, bits)[-1]
        if prefix != floor:
            return prefix < floor


@cache
def _table() -> tuple[NDArray[np.uint16], Words]:
    """The cell of every 16-bit prefix (or "unsure"), and floor(B(i)·2^64), ascending."""
    floors = np.array(boundaries(TABLE, 64)[::-1], dtype=np.uint64)
    prefixes = np.arange(2**16, dtype=np.uint64)
    guide = (TABLE - np.searchsorted(floors, prefixes << np.uint64(48))).astype(np.uint16)
    guide[floors >> np.uint64(48)] = UNSURE
    return guide, floors


def boundaries(count: int, bits: int, *, extra: int = 64) -> list[int]:
    """floor(exp(−i/256)·2^bits) for i = 1 … count, certified.

    exp(−1/256) by its alternating series: each of K terms is rounded down by less than one
    unit and the terms left out are less than one together. Powers by multiplication,
    rounded down for the lower and up for the upper bound; computed to ``extra`` more bits,
    and to twice as many for as long as the two bounds have different floors.

    >>> [value / 2**64 for value in boundaries(256, 64)[::255]]
    [0.9961013694701175, 0.36787944117144233]
    """
    while True:
        precision = bits + extra
        term, total, k = 1 << precision, 0, 0
        while term:
            total += -term if k % 2 else term
            k += 1
            term //= 256 * k
        low, high = total - k - 1, total + k + 1
        least, most = 1 << precision, 1 << precision
        floors = []
        for _ in range(count):
            least, most = least * low >> precision, (most * high >> precision) + 1
            if least >> extra != most >> extra:
                break
            floors.append(least >> extra)
        if len(floors) == count:
            return floors
        extra *= 2
