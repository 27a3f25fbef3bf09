"""Who holds a cell: each cell of each record must have one holder, unless the plan says otherwise.

Each party codes the cells it holds and marks the others with −1. Two things go wrong in real
tables: an *overlap*, a cell that several parties hold, and a *hole*, one that nobody holds. Counts
are sums over parties, so an overlap would be counted twice and a hole not at all, and the promise
would not hold for those people.

``check_holders`` opens one bit: whether every cell has one holder. With h the holders of a cell,
Σ (h − 1)² is 0 exactly if all are 1; it is computed on shares (h² takes products of what different
parties hold), compared with 0 on shares, and the bit alone is opened. It says nothing of where,
what or how many: a run that ends tells no party more than that the tables do not fit.

``settle_overlaps`` leaves each cell one holder at most: the first named party that holds it, or
the first that holds the value most holders have. Each party is told which of its own cells count:
one bit for each cell, which it masks itself with words that nobody else knows, so the others see
uniform words. So it learns which of its own cells somebody else holds too, where its own does not
count, and nothing of cells that it does not hold.

Notation: P parties, n records, d attributes, h(c) the number of holders of the cell c.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import TableError, VerificationError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]
    Codes = tuple[Numbers, ...]
    Masks = Callable[[int, int], NDArray[np.uint64]]

ONE_HOLDER = "whether every cell has one holder"
ONE_AT_MOST = "whether no cell has several holders"
OWN_CELLS = "which of a party's own cells count, masked by it"

CELLS_AT_ONCE = 62 * 2**13
"""Cells that are looked at in one program: what bounds the memory it takes."""

BITS = 62
"""Cells that are told in one word."""


class Overlaps(StrEnum):
    """What happens to a cell that several parties hold."""

    REFUSE = "refuse"
    FIRST = "first"
    MAJORITY = "majority"


class Holes(StrEnum):
    """What happens to a cell that nobody holds."""

    REFUSE = "refuse"
    MISSING = "missing"


def check_holders(
    engine: JointEngine, cells: Mapping[int, Codes], shape: tuple[int, int], holes: Holes
) -> None:
    """Raise unless every one of n × d cells has one holder, or one at most where holes are kept."""
    total = shape[0] * shape[1]
    if total == 0:
        return

    def held(party: int, piece: slice, size: int) -> Numbers:
        return (_flat(cells[party], piece, size) >= 0).astype(np.int64)

    # Σ (h − 1)² = Σ h² − 2 Σ h + n·d, and Σ h² = Σ h + 2 Σ over pairs of parties that both hold.
    pairs = None
    for piece, size in _pieces(total):
        before = engine.share(0, lambda piece=piece, size=size: held(0, piece, size), (size,))  # type: ignore[misc]
        for party in range(1, engine.parties):
            own = engine.share(
                party,
                lambda party=party, piece=piece, size=size: held(party, piece, size),  # type: ignore[misc]
                (size,),
            )
            row = (1, size)
            both = engine.inner(engine.reshape(before, row), engine.reshape(own, row))
            pairs = both if pairs is None else engine.add(pairs, both)
            before = engine.add(before, own)
        pairs = engine.settle(pairs, "holders of cells")
    wrong = engine.scale(engine.reshape(pairs, (1,)), 2)
    if holes is Holes.REFUSE:
        for party in range(engine.parties):
            own = engine.share(
                party,
                lambda party=party: np.array([sum((c >= 0).sum() for c in cells[party])], np.int64),  # type: ignore[misc]
                (1,),
            )
            wrong = engine.add(wrong, engine.scale(own, -1))
        wrong = engine.add(wrong, np.array([total], np.int64))
    what = ONE_HOLDER if holes is Holes.REFUSE else ONE_AT_MOST
    if engine.open(engine.less(wrong, 1), what)[0] != 1:
        raise TableError(
            "the parties' fragments do not make a whole table",
            must="every cell held by exactly one party",
            do="compare which cells each party is meant to hold, or agree on a plan with "
            "`overlaps: first` or `majority` and `holes: missing`",
        )


def settle_overlaps(
    engine: JointEngine,
    cells: Mapping[int, Codes],
    sizes: Sequence[int],
    n: int,
    overlaps: Overlaps,
    masks: Masks,
) -> dict[int, Codes]:
    """The cells of the parties that this process plays, each with one holder at most.

    ``masks`` gives a party's words, so many of them: the same when a run is started again.
    """
    total = n * len(sizes)
    if overlaps is Overlaps.REFUSE or total == 0:
        return dict(cells)
    every = {party: masks(party, _words(total)) for party in cells}
    won: dict[int, list[NDArray[np.bool_]]] = {party: [] for party in cells}
    for piece, size in _pieces(total):
        words = slice(piece.start // BITS, piece.stop // BITS)
        own = {party: mask[words] for party, mask in every.items()}
        masked = []
        for party, wins in enumerate(_winners(engine, cells, piece, size, max(sizes), overlaps)):
            shape = (size // BITS, BITS)
            packed = engine.sum(engine.scale(engine.reshape(wins, shape), _WEIGHTS))
            mask = engine.share(
                party,
                lambda party=party, own=own: own[party].view(np.int64),  # type: ignore[misc]
                packed.shape,
            )
            masked.append(engine.add(packed, mask))
        # At once, for what is opened takes its inputs with it.
        opened = engine.open(engine.join(masked), OWN_CELLS).view(np.uint64)
        for party, mine in own.items():
            masked_bits = opened[party * len(mine) : (party + 1) * len(mine)]
            won[party].append(_unpacked(masked_bits - mine))
    return {
        party: _kept(cells[party], np.concatenate(won[party])[:total].reshape(len(sizes), n))
        for party in cells
    }


_WEIGHTS = np.int64(1) << np.arange(BITS, dtype=np.int64)


def _winners(
    engine: JointEngine,
    cells: Mapping[int, Codes],
    piece: slice,
    size: int,
    most: int,
    overlaps: Overlaps,
) -> list[Any]:
    """For each party, 1 where it holds a cell and its value counts."""
    parties = range(engine.parties)

    def own(party: int) -> Numbers:
        return _flat(cells[party], piece, size)

    held = [
        engine.share(p, lambda p=p: (own(p) >= 0).astype(np.int64), (size,))  # type: ignore[misc]
        for p in parties
    ]
    ones = np.ones(size, np.int64)
    if overlaps is Overlaps.FIRST:
        wins = [held[0]]
        free = engine.add(engine.scale(held[0], -1), ones)
        for party in parties[1:]:
            wins.append(engine.multiply(held[party], free))
            # Nobody up to here holds it: those that won are exactly one for each held cell.
            free = engine.add(free, engine.scale(wins[party], -1))
        return wins
    # A cell that a party does not hold has a code that nobody else's has.
    codes = [
        engine.share(p, lambda p=p: np.where(own(p) >= 0, own(p), most + p), (size,))  # type: ignore[misc]
        for p in parties
    ]
    middle = most + engine.parties
    votes = list(held)
    for p in parties:
        for q in range(p):
            apart = engine.add(codes[p], engine.scale(codes[q], -1))
            equal = _is(engine, engine.add(apart, middle * ones), middle)
            votes[p], votes[q] = engine.add(votes[p], equal), engine.add(votes[q], equal)
    place = engine.largest(engine.stack(votes))
    return [engine.multiply(held[p], _is(engine, place, p)) for p in parties]


def _is(engine: JointEngine, a: Any, value: int) -> Any:
    """1 where a secret that is not negative has that value."""
    below = engine.less(a, value)
    return engine.add(engine.less(a, value + 1), engine.scale(below, -1))


def _pieces(total: int) -> Iterator[tuple[slice, int]]:
    """Pieces of equal length, whole words each; the last reaches beyond the cells."""
    words = -(-total // BITS)
    count = -(-words * BITS // CELLS_AT_ONCE)
    size = -(-words // count) * BITS
    for start in range(0, total, size):
        yield slice(start, start + size), size


def _words(total: int) -> int:
    """How many words it takes to tell all cells, those filled up with included."""
    return sum(size // BITS for _, size in _pieces(total))


def _flat(codes: Codes, piece: slice, size: int) -> Numbers:
    """A piece of all cells, attribute by attribute, filled up with cells that nobody holds."""
    part = np.concatenate(codes)[piece]
    return np.concatenate([part, np.full(size - len(part), -1, np.int64)])


def _unpacked(words: NDArray[np.uint64]) -> NDArray[np.bool_]:
    if (words >> np.uint64(BITS)).any():
        raise VerificationError(
            "the journal does not fit this party's table",
            must="the table with which the run was begun",
            do="bring it back, or move the journals away and begin a new run",
        )
    bits: NDArray[np.uint64] = words[:, None] >> np.arange(BITS, dtype=np.uint64)
    return (bits & np.uint64(1)).ravel().astype(np.bool_)


def _kept(codes: Codes, keep: NDArray[np.bool_]) -> Codes:
    return tuple(np.where(mine, column, -1) for mine, column in zip(keep, codes, strict=True))
