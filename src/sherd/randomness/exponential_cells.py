"""Which cell of width 1/256 a standard exponential falls into, by exact inversion.

Notation: W uniform on (0, 1), B(i) = exp(−i/256); the cell is the number of i ≥ 1 with
W < B(i). The argument for exactness is in ``exponential``.
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

LAST_CELL = 2**15 - 1
"""Cells beyond are cut off here: E < 128."""

TABLE = 4096
"""Cells with a boundary in the table: E < 16."""

UNSURE = np.uint16(0xFFFF)
"""Marks a prefix of W that a boundary divides."""


def cells(first: Words, source: Source) -> Words:
    """The cell of each draw from the first 16 bits of its W, and more where needed."""
    guide, floors = _table()
    cell = guide[first]
    unsure = np.flatnonzero(cell == UNSURE)
    found = cell.astype(np.uint64)
    if unsure.size:
        prefix = (first[unsure] << np.uint64(48)) | (source(unsure.size) >> np.uint64(16))
        above = np.searchsorted(floors, prefix, side="right")
        equal = np.searchsorted(floors, prefix, side="left") != above
        passed = TABLE - above
        for row in np.flatnonzero(equal | (passed == TABLE)):
            passed[row] = _exact_cell(int(prefix[row]), source)
        found[unsure] = passed.astype(np.uint64)
    return found


def _exact_cell(prefix: int, source: Source) -> int:
    """The cell of a W of which the first 64 bits are ``prefix``, whatever that takes."""
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
