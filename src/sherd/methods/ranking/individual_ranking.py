"""Individual ranking: sort one attribute, cut it into clusters of k, reduce, put back.

Algorithm 1 of delvasto2025: p = floor(n/k) clusters of consecutive values, the last one
takes the remainder (102 records at k = 5: 20 clusters, the last with 7).

Notation: cluster j has size s_j, smallest position u_j, largest v_j.

A position (at most 36 bits, see ``Axis``) and a row number are packed into one 64-bit
word, so that one sort of words is exact, needs no second look at ties and carries every
row's place with it. The row number is the row's place in the *released* table: shuffling
the rows costs nothing. Random bits stand between the two, drawn for every attribute by itself,
so that equal values fall into clusters at random: were they ranked by place, the order of the
released rows would tell which clusters hold equal values. Everything around the sort runs in
blocks that stay in cache; extra memory is one word a row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import InternalError, TableError
from sherd.randomness.order import WIDTH, tie_width
from sherd.tables.coding import encode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from sherd.randomness.order import TieBits
    from sherd.tables.axis import Axis

WORDS_AT_ONCE = 1 << 15
"""Words that are worked on at once: few enough that what is made of them stays in a core's own
cache, and enough that threads seldom wait for each other between numpy's calls."""


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """One attribute's present cells, sorted and cut into clusters of at least k.

    ``words`` holds position, ``ties`` random bits, and place in ``bits`` bits, packed and
    sorted; ``missing`` the places of the cells without a value.
    """

    words: NDArray[np.uint64]
    bits: int
    k: int
    missing: NDArray[np.uint32]
    ties: int = 0

    @property
    def shift(self) -> np.uint64:
        """How far a word's position lies above its end."""
        return np.uint64(self.bits + self.ties)

    @property
    def clusters(self) -> int:
        """The number of clusters p."""
        return len(self.words) // self.k

    @property
    def sizes(self) -> NDArray[np.int64]:
        """The number of cells in each cluster."""
        sizes = np.full(self.clusters, self.k, np.int64)
        sizes[-1] += len(self.words) - self.clusters * self.k
        return sizes

    def positions(self) -> NDArray[np.int64]:
        """Every position in ascending order, as a new array."""
        return (self.words >> self.shift).view(np.int64)


@dataclass(frozen=True, kw_only=True)
class Clusters:
    """What is known of each cluster: size, sum, and its three smallest and largest.

    ``low`` holds u, u′, u″ as far as the cluster has them, ``high`` v, v′, v″.
    """

    sizes: NDArray[np.int64]
    sums: NDArray[np.int64]
    low: tuple[NDArray[np.int64], ...]
    high: tuple[NDArray[np.int64], ...]


def rank(
    column: pa.ChunkedArray,
    axis: Axis,
    k: int,
    places: NDArray[np.uint32],
    missing_values: Sequence[str] = (),
    words: NDArray[np.uint64] | None = None,
    sort: Callable[[NDArray[np.uint64]], None] = np.ndarray.sort,
    ties: TieBits | None = None,
) -> Ranking:
    """Sort a column's present cells; ``places`` says where each row stands in the release.

    ``words`` is memory to work in, a word a row, that the ranking then holds on to; ``sort``
    puts words into ascending order in place. Equal values are ranked by ``ties``, or by place.
    """
    rows = len(column)
    bits = max(1, (rows - 1).bit_length())
    width = 0 if ties is None else tie_width(axis.steps, bits)
    check_grid(axis, k, rows)
    if words is None:
        words = np.empty(rows, np.uint64)
    gaps = []
    filled = 0
    for start, positions, missing in encode(column, axis, missing_values, words.view(np.int64)):
        block = positions.view(np.uint64)
        place = places[start : start + len(block)]
        if missing is not None:
            gaps.append(place[missing])
            block, place = block[~missing], place[~missing]
        _pack(block, place, words[filled : filled + len(block)], bits, ties, width)
        filled += len(block)
    check_filled(axis, k, filled, rows)
    words = words[:filled]
    sort(words)
    absent = np.concatenate(gaps) if gaps else np.empty(0, np.uint32)
    return Ranking(words=words, bits=bits, k=k, missing=absent, ties=width)


def _pack(
    block: NDArray[np.uint64],
    place: NDArray[np.uint32],
    target: NDArray[np.uint64],
    bits: int,
    ties: TieBits | None,
    width: int,
) -> None:
    """Put positions, random bits and places into words, a piece at a time."""
    for start in range(0, len(block), WORDS_AT_ONCE):
        stop = start + WORDS_AT_ONCE
        piece = target[start:stop]
        np.left_shift(block[start:stop], np.uint64(width), out=piece)
        if ties is not None and width:
            drawn = ties.take(len(piece))
            if width < WIDTH:
                drawn >>= np.uint16(WIDTH - width)
            piece |= drawn
        piece <<= np.uint64(bits)
        piece |= place[start:stop]


def check_grid(axis: Axis, k: int, rows: int) -> None:
    """Refuse a grid too fine for words of 64 bits, or for sums of whole clusters."""
    bits = max(1, (rows - 1).bit_length())
    if axis.steps.bit_length() + bits > 64:
        raise TableError(
            f"the attribute '{axis.name}' has too fine a grid for this many rows",
            must="few enough steps that a place on it and a row's number fit into 64 bits",
            got=f"{axis.steps} steps",
            do="declare a wider `grid` in the schema",
        )
    if axis.steps * min(2 * k - 1, rows) >= 2**62:
        raise TableError(
            f"the attribute '{axis.name}' has too fine a grid for clusters of this size",
            must="clusters whose sums are below 2**62 steps",
            do="declare a wider `grid` in the schema, or choose a smaller k",
        )


def check_filled(axis: Axis, k: int, filled: int, rows: int) -> None:
    """Refuse an attribute with some values, but fewer than one cluster needs."""
    if 0 < filled < k or (filled == 0 and rows < k):
        raise TableError(
            f"the attribute '{axis.name}' has fewer values than one cluster needs",
            must=f"at least k = {k} present values",
            do="choose a smaller k",
        )


def reduce(ranking: Ranking, depth: int = 1) -> Clusters:
    """Sums and the ``depth`` smallest and largest positions of every cluster."""
    if not 1 <= depth <= ranking.k:
        raise InternalError("a cluster has fewer values than asked for")
    p = ranking.clusters
    sums = np.empty(p, np.int64)
    low = tuple(np.empty(p, np.int64) for _ in range(depth))
    high = tuple(np.empty(p, np.int64) for _ in range(depth))
    scratch = _scratch(ranking)
    for first, last, words in _blocks(ranking):
        positions = np.right_shift(words, ranking.shift, out=scratch[: len(words)])
        grid = positions.view(np.int64).reshape(last - first, -1)
        np.add.reduce(grid, axis=1, out=sums[first:last])
        for i in range(depth):
            low[i][first:last] = grid[:, i]
            high[i][first:last] = grid[:, -1 - i]
    return Clusters(sizes=ranking.sizes, sums=sums, low=low, high=high)


def put_back(ranking: Ranking, cells: NDArray[Any], out: NDArray[Any]) -> None:
    """Give every row of cluster j the cell j, at the row's place in ``out``."""
    mask = np.uint64((1 << ranking.bits) - 1)
    scratch = _scratch(ranking)
    for first, last, words in _blocks(ranking):
        places = np.bitwise_and(words, mask, out=scratch[: len(words)]).view(np.int64)
        # Not ``np.repeat``, during which no other thread of Python runs.
        each = np.empty((last - first, len(words) // (last - first)), cells.dtype)
        each[:] = cells[first:last, np.newaxis]
        out[places] = each.reshape(-1)


def _scratch(ranking: Ranking) -> NDArray[np.uint64]:
    """Memory for the largest of the runs, so that none need be asked for again and again."""
    return np.empty(min(len(ranking.words), max(WORDS_AT_ONCE, 2 * ranking.k)), np.uint64)


def _blocks(ranking: Ranking) -> Iterator[tuple[int, int, NDArray[np.uint64]]]:
    """Runs of equally large clusters (first, last, their words), the last cluster alone."""
    k, p = ranking.k, ranking.clusters
    if p == 0:
        return
    stride = max(1, WORDS_AT_ONCE // k)
    for first in range(0, p - 1, stride):
        last = min(first + stride, p - 1)
        yield first, last, ranking.words[first * k : last * k]
    yield p - 1, p, ranking.words[(p - 1) * k :]
