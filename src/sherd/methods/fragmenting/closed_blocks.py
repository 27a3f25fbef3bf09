"""Groups of two fragments from blocks that are closed, for tables without room to spare.

Where a combination of values fills exactly 1/(k_1·k_2) of the tuples, every group must be
associated with every such combination. The search (see ``placement``) then ends with a few tuples
that fit nowhere; their groups fall below their quota, and so do the groups associated with those,
until hardly anything is left. A block of k_1·k_2 tuples that all differ in every aspect needs
nobody else: laid out as a grid, its rows are groups of the one fragment and its columns groups of
the other, two of them meet in one tuple, and a group reaches nothing but the block. Blocks are made
as Anatomy makes its buckets: a tuple each from the most frequent combinations that are left.
"""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    from sherd.randomness import Randomness

    Codes = npt.NDArray[np.int32]

_LOOKED_AT = 64


def closed_blocks(shape: Any, randomness: Randomness) -> npt.NDArray[np.int32]:
    """The group of every tuple in both fragments, -1 where it is in no block."""
    rows, cells = int(shape.sizes[0]), int(shape.sizes[1])
    codes: Codes = shape.codes
    tightest = max(range(codes.shape[1]), key=lambda a: int(np.bincount(codes[:, a]).max()))
    buckets: dict[int, list[int]] = {}
    for t in randomness.permutation(len(codes)).tolist():
        buckets.setdefault(int(codes[t, tightest]), []).append(t)
    queue = [(-len(members), value) for value, members in buckets.items()]
    heapq.heapify(queue)
    place = np.full((len(codes), 2), -1, np.int32)
    blocks = 0
    while len(queue) >= rows * cells:
        block = _block(queue, buckets, codes, rows * cells)
        if block is None:
            break
        at = np.arange(rows * cells)
        place[block, 0] = blocks * cells + at // rows
        place[block, 1] = blocks * rows + at % rows
        blocks += 1
    return place


def _block(
    queue: list[tuple[int, int]], buckets: dict[int, list[int]], codes: Codes, size: int
) -> list[int] | None:
    """Take a block out of the buckets, the fullest first; None where no block can be had."""
    block: list[int] = []
    seen: list[set[int]] = [set() for _ in range(codes.shape[1])]
    passed: list[int] = []
    while queue and len(block) < size:
        _, value = heapq.heappop(queue)
        passed.append(value)
        members = buckets[value]
        for back in range(1, min(_LOOKED_AT, len(members)) + 1):
            mine = codes[members[-back]].tolist()
            if not any(code in known for code, known in zip(mine, seen, strict=True)):
                members[-back], members[-1] = members[-1], members[-back]
                block.append(members.pop())
                for code, known in zip(mine, seen, strict=True):
                    known.add(code)
                break
    for value in passed:
        if buckets[value]:
            heapq.heappush(queue, (-len(buckets[value]), value))
    return block if len(block) == size else None
