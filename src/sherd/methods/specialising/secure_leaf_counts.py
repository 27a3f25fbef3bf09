"""How many records lie in each leaf, on shares.

The attributes are divided in two halves. A combination of intervals of a half is a column of 0
and 1, one for each record; a leaf is a combination of the one half and one of the other, so a
matrix product of the two counts all leaves at once.

Where every cell has a holder, a party's column has a 1 for each record that, by its own cells,
may have the combination, and the product of all parties' columns is the record's. Where cells may
be held by nobody, an attribute's interval is the sum of the parties' columns (a cell has one
holder at most), the interval that holds missing cells is what is left of 1, and a combination is
the product over attributes: nobody learns which cells are missing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.methods.specialising.plain_oracle import part_of_code

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.specialising.specialise import Cuts
    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]

RECORDS_AT_ONCE = 2**15
"""Records that are counted in one call: what bounds the memory it takes."""


@dataclass(frozen=True, kw_only=True)
class PartyCells:
    """One party's cells: the codes of every attribute, −1 where it holds none."""

    codes: tuple[Numbers, ...]


@dataclass(frozen=True, kw_only=True)
class LeafCounter:
    """Counts some records at a time; ``holes`` says that cells may be held by nobody."""

    engine: JointEngine
    cells: Mapping[int, PartyCells]
    cuts: Cuts
    holes: bool

    @property
    def leaves(self) -> int:
        """How many leaves there are."""
        return math.prod(len(cut) - 1 for cut in self.cuts)

    def count(self, rows: Numbers, size: int) -> Any:
        """The records among ``rows`` in each leaf, filled up to ``size`` that lie nowhere."""
        if size == 0:
            return self.engine.share(0, lambda: np.zeros(self.leaves, np.int64), (self.leaves,))
        split = divided([len(cut) - 1 for cut in self.cuts])
        half = self._sums if self.holes else self._products
        left = half(range(split), rows, size)
        right = half(range(split, len(self.cuts)), rows, size)
        flat = self.engine.reshape(self.engine.inner(left, right), (self.leaves,))
        return self.engine.settle(flat, "leaf counts")

    def _products(self, attributes: range, rows: Numbers, size: int) -> Any:
        """Each party's combinations, multiplied."""
        shape = (math.prod(len(self.cuts[a]) - 1 for a in attributes), size)

        def own(party: int) -> Numbers:
            return self._consistent(party, attributes, rows, size).astype(np.int64)

        total = self.engine.share(0, lambda: own(0), shape)
        for party in range(1, self.engine.parties):
            mine = self.engine.share_bits(party, lambda party=party: own(party), shape)  # type: ignore[misc]
            total = self.engine.multiply(total, mine)
        return total

    def _consistent(
        self, party: int, attributes: range, rows: Numbers, size: int
    ) -> NDArray[np.uint8]:
        """Which records, by all that a party holds of some attributes, lie in which combination."""
        shape = tuple(len(self.cuts[a]) - 1 for a in attributes)
        wanted = np.unravel_index(np.arange(math.prod(shape)), shape) if shape else ()
        fits = np.zeros((math.prod(shape), size), np.uint8)
        fits[:, : len(rows)] = 1
        for a, parts in zip(attributes, wanted, strict=True):
            cut = self.cuts[a]
            if len(cut) == 2:
                continue
            # A cell that another party holds (code −1, so the last entry) contradicts nothing.
            agrees = np.ones((len(parts), cut[-1] + 1), np.uint8)
            agrees[:, :-1] = part_of_code(cut) == parts[:, None]
            fits[:, : len(rows)] &= agrees[:, self.cells[party].codes[a][rows]]
        return fits

    def _sums(self, attributes: range, rows: Numbers, size: int) -> Any:
        """Combinations of intervals, each the sum of what the parties hold of it."""
        engine, total, width = self.engine, None, 1
        for a in attributes:
            parts = len(self.cuts[a]) - 1
            if parts == 1:
                continue
            own = self._interval(a, rows, size)
            if total is None:
                total, width = own, parts
                continue
            # Every combination so far with every interval, last attribute fastest.
            wide = engine.reshape(total, (width, 1, size))
            total = engine.multiply(wide, engine.reshape(own, (1, parts, size)))
            width *= parts
            total = engine.reshape(total, (width, size))
        if total is not None:
            return total
        here = (np.arange(size) < len(rows)).astype(np.int64)
        return engine.share(0, lambda: here, (1, size))

    def _interval(self, a: int, rows: Numbers, size: int) -> Any:
        """For every interval of an attribute's cut, which records lie in it."""
        parts = len(self.cuts[a]) - 1

        def own(party: int) -> Numbers:
            codes = self.cells[party].codes[a][rows]
            held = codes >= 0
            inside = np.zeros((parts, size), np.int64)
            inside[part_of_code(self.cuts[a])[codes[held]], np.flatnonzero(held)] = 1
            # What nobody holds is missing, and missing cells have the last code.
            inside[-1] -= np.pad(held.astype(np.int64), (0, size - len(rows)))
            if party == 0:
                inside[-1, : len(rows)] += 1
            return inside

        return sum_of_parties(self.engine, own, (parts, size))


def sum_of_parties(
    engine: JointEngine, own: Callable[[int], Numbers], shape: tuple[int, ...]
) -> Any:
    """The sum, on shares, of the numbers that every party has."""
    total = engine.share(0, lambda: own(0), shape)
    for party in range(1, engine.parties):
        mine = engine.share(party, lambda party=party: own(party), shape)  # type: ignore[misc]
        total = engine.add(total, mine)
    return total


def pieces(rows: Numbers) -> tuple[list[Numbers], int]:
    """Pieces of at most ``RECORDS_AT_ONCE`` records and their common size: one program for all."""
    count = -(-len(rows) // RECORDS_AT_ONCE)
    size = -(-len(rows) // count) if count else 0
    return [rows[i * size : (i + 1) * size] for i in range(max(1, count))], size


def divided(shape: Sequence[int]) -> int:
    """Where to divide attributes in two so that both halves have few combinations.

    >>> divided([2, 3, 1, 4]), divided([5])
    (3, 1)
    """
    costs = [math.prod(shape[:i]) + math.prod(shape[i:]) for i in range(len(shape) + 1)]
    return min(range(len(costs)), key=lambda i: (costs[i], -i))
