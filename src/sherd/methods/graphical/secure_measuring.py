"""Noisy histograms of records whose cells lie with several parties, counted on shares.

A histogram is a sum over records of products of one-hot cells. A party's *column* of a bin has
a 1 for each record that it holds in that bin; as every cell has one holder, the sum of the parties'
columns is the bin's. So

- a histogram of one attribute is a sum of local counts: shares already;
- where every attribute lies with one party (by columns), each party makes the columns of all
  combinations of its own attributes itself, and what crosses two parties is one matrix product of
  their columns, for all histograms at once; what lies within one party it counts itself;
- where an attribute's cells lie with several parties (cell by cell), columns are secrets, and
  combinations of them products of secrets.

Noise is added on shares, and only noisy counts are opened:

- discrete Laplace noise is drawn inside the computation, bit by bit, and no party knows any part
  of it: outsiders and parties get the same promise, with the δ of finite bits;
- discrete Gaussian noise of variance σ² is the sum of one draw of variance σ²/P by each of the P
  parties that compute. To outsiders it is as one owner's (``shared_noise``, kairouz2021); a party
  knows its own draw and faces variance σ²(P − 1)/P: ρ of P/((P − 1)σ²) instead of 1/σ². Both are
  stated (``Insiders``).

Neighbours: one substituted record, as for one owner.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.methods.graphical.measuring import Binned, Measurement, Noise
from sherd.methods.graphical.shared_noise import SharedNoise
from sherd.secure.engine.noise_bits import shared_geometric

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from sherd.methods.graphical.measuring import Marginal, Request
    from sherd.secure.engine.interface import JointEngine

    Numbers = NDArray[np.int64]
    Codes = tuple[Numbers, ...]
    Draws = Callable[[Noise, int], Numbers]

NOISY = "noisy counts"

EVERYBODY = -1

RECORDS_AT_ONCE = 2**14
"""Records that are counted in one product: what bounds the memory it takes."""


@dataclass(frozen=True, kw_only=True)
class HolderLayout:
    """Who holds what, which all parties know.

    For each attribute its holder, ``EVERYBODY`` where every party has all of its cells (a class),
    None where its cells lie with several parties.
    """

    holders: tuple[int | None, ...]
    sizes: tuple[int, ...]
    rows: int


class SecureMeasurer:
    """Answers requests together with the other parties; every party gets the same answers.

    ``cells`` holds the codes of the parties that this process plays, −1 where another holds the
    cell; ``draws`` gives a party's own draws of noise and is called for those parties only.
    """

    def __init__(
        self,
        engine: JointEngine,
        layout: HolderLayout,
        cells: Mapping[int, Codes],
        draws: Callable[[int], Draws],
        hosts: int | None = None,
    ) -> None:
        self._engine, self._layout, self._cells = engine, layout, cells
        self._draws, self._hosts = draws, engine.parties if hosts is None else hosts

    @property
    def rows(self) -> int:
        """The public number of records."""
        return self._layout.rows

    def measure(self, requests: Sequence[Request]) -> list[Measurement]:
        """Every requested histogram with its noise; opened at once, noisy."""
        if not requests:
            return []
        exact = self._counts([one.marginal for one in requests])
        flat = [
            self._noisy(counts.secret, one.noise, one.marginal.cells)
            for counts, one in zip(exact, requests, strict=True)
        ]
        opened = self._engine.open(self._engine.join(flat), NOISY)
        ends = np.cumsum([one.marginal.cells for one in requests])
        parts = np.split(opened, ends[:-1])
        return [
            Measurement(request=one, counts=counts.ordered(part, one.marginal.shape))
            for one, counts, part in zip(requests, exact, parts, strict=True)
        ]

    # Counting

    def _counts(self, marginals: Sequence[Marginal]) -> list[_FlatCounts]:
        """Exact counts as flat secrets."""
        found: dict[int, _FlatCounts] = {}
        crossing: dict[tuple[_Side, _Side], list[int]] = {}
        for i, one in enumerate(marginals):
            sides = self._sides(one)
            if sides is None:
                found[i] = _FlatCounts(secret=self._product_of_all(one))
            elif len(sides) == 1:
                found[i] = _FlatCounts(secret=self._within(one, sides[0].party))
            else:
                crossing.setdefault((sides[0], sides[1]), []).append(i)
        self._cross(crossing, found)
        return [found[i] for i in range(len(marginals))]

    def _sides(self, marginal: Marginal) -> tuple[_Side, ...] | None:
        """The parties' parts of a marginal, where there are two at most; None else."""
        if len(marginal.attributes) == 1 and self._layout.holders[marginal.attributes[0]] is None:
            return (
                _Side(party=None, places=(0,), attributes=marginal.attributes, bins=marginal.bins),
            )
        holders = [self._layout.holders[a] for a in marginal.attributes]
        # What everybody has goes along with the first of those that hold the rest.
        first = min((one for one in holders if one not in (None, EVERYBODY)), default=0)
        holders = [first if one == EVERYBODY else one for one in holders]
        parties = sorted({one for one in holders if one is not None})
        if None in holders or len(parties) > 2:
            return None
        return tuple(
            _Side(
                party=party,
                places=tuple(i for i, holder in enumerate(holders) if holder == party),
                attributes=tuple(
                    a for a, h in zip(marginal.attributes, holders, strict=True) if h == party
                ),
                bins=tuple(b for b, h in zip(marginal.bins, holders, strict=True) if h == party),
            )
            for party in parties
        )

    def _within(self, marginal: Marginal, holder: int | None) -> Any:
        """What parties count themselves: one has it all, or each its cells of one attribute."""
        engine, cells = self._engine, marginal.cells

        def own(party: int) -> Numbers:
            columns = [self._cells[party][a] for a in marginal.attributes]
            index = _index(columns, marginal.bins, marginal.shape)
            return np.bincount(index[index >= 0], minlength=cells)

        parties = range(engine.parties) if holder is None else [holder]
        total = None
        for party in parties:
            mine = engine.share(party, lambda party=party: own(party), (cells,))  # type: ignore[misc]
            total = mine if total is None else engine.add(total, mine)
        return total

    def _cross(
        self,
        crossing: Mapping[tuple[_Side, _Side], list[int]],
        found: dict[int, _FlatCounts],
    ) -> None:
        """One matrix product for all histograms between each two parties."""
        engine = self._engine
        by_pair: dict[tuple[Any, Any], list[tuple[_Side, _Side]]] = {}
        for left, right in crossing:
            by_pair.setdefault((left.party, right.party), []).append((left, right))
        for pairs in by_pair.values():
            for some in _blocks(pairs):
                lefts = list(dict.fromkeys(left for left, _ in some))
                rights = list(dict.fromkeys(right for _, right in some))
                product = self._product(lefts, rights)
                down, across = _starts(lefts), _starts(rights)
                for left, right in some:
                    rows = slice(down[left], down[left] + left.cells)
                    columns = slice(across[right], across[right] + right.cells)
                    block = engine.block(product, rows, columns)
                    for i in crossing[left, right]:
                        found[i] = _FlatCounts(secret=block, axes=(*left.places, *right.places))

    def _product(self, lefts: Sequence[_Side], rights: Sequence[_Side]) -> Any:
        """How many records have each combination of both sides, some records after the other."""
        engine, total = self._engine, None
        pieces = -(-self._layout.rows // RECORDS_AT_ONCE)
        size = -(-self._layout.rows // pieces)
        for start in range(0, pieces * size, size):
            some = slice(start, start + size)
            part = engine.inner(self._columns(lefts, some, size), self._columns(rights, some, size))
            total = part if total is None else engine.add(total, part)
            total = engine.settle(total, "cross counts")
        return total

    def _columns(self, sides: Sequence[_Side], some: slice, size: int) -> Any:
        """The columns of all combinations of some of a party's own attributes, as a secret."""
        (party,) = {one.party for one in sides}
        assert party is not None
        height = sum(one.cells for one in sides)

        def own() -> Numbers:
            found = np.zeros((height, size), np.int64)
            start = 0
            for one in sides:
                columns = [self._cells[party][a][some] for a in one.attributes]
                found[start + _index(columns, one.bins, one.shape), np.arange(len(columns[0]))] = 1
                start += one.cells
            return found

        return self._engine.share(party, own, (height, size))

    def _product_of_all(self, marginal: Marginal) -> Any:
        """Columns of every attribute as secrets, multiplied; the last by a matrix product."""
        engine, n = self._engine, self._layout.rows
        each = [
            self._secret_columns(a, bins, size)
            for a, bins, size in zip(
                marginal.attributes, marginal.bins, marginal.shape, strict=True
            )
        ]
        total, width = each[0], marginal.shape[0]
        for other, size in zip(each[1:-1], marginal.shape[1:-1], strict=True):
            wide = engine.reshape(total, (width, 1, n))
            total = engine.multiply(wide, engine.reshape(other, (1, size, n)))
            width *= size
            total = engine.reshape(total, (width, n))
        flat = engine.reshape(engine.inner(total, each[-1]), (marginal.cells,))
        return engine.settle(flat, "cross counts")

    def _secret_columns(self, attribute: int, bins: tuple[int, ...], size: int) -> Any:
        engine, n = self._engine, self._layout.rows
        holder = self._layout.holders[attribute]

        def own(party: int) -> Numbers:
            index = _index([self._cells[party][attribute]], (bins,), (size,))
            found = np.zeros((size, n), np.int64)
            found[index[index >= 0], np.flatnonzero(index >= 0)] = 1
            return found

        total = None
        for party in range(engine.parties) if holder is None else [max(holder, 0)]:
            mine = engine.share(party, lambda party=party: own(party), (size, n))  # type: ignore[misc]
            total = mine if total is None else engine.add(total, mine)
        return total

    # Noise

    def _noisy(self, counts: Any, noise: Noise, n: int) -> Any:
        engine = self._engine
        if noise.kind == "laplace":
            both = shared_geometric(engine, 2 * n, 1 / noise.scale)
            counts = engine.add(counts, engine.take(both, 0, n))
            return engine.add(counts, engine.scale(engine.take(both, n, 2 * n), -1))
        part = SharedNoise(owners=self._hosts, colluders=0).part(noise, n)
        for party in range(self._hosts):
            mine = engine.share(party, lambda party=party: self._draws(party)(part, n), (n,))  # type: ignore[misc]
            counts = engine.add(counts, mine)
        return counts


@dataclass(frozen=True, kw_only=True)
class _Side(Binned):
    """One party's attributes of a marginal: their places in it, and their bins."""

    party: int | None
    places: tuple[int, ...]
    attributes: tuple[int, ...]
    bins: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, kw_only=True)
class _FlatCounts:
    """Counts of a marginal as a flat secret, its attributes in an order of their own.

    They are put in order once they are open: the noise on each is as good as on any other, and
    moving secrets one by one costs as much as counting them.
    """

    secret: Any
    axes: tuple[int, ...] | None = None

    def ordered(self, opened: Numbers, shape: tuple[int, ...]) -> Numbers:
        """The opened counts in the marginal's shape."""
        if self.axes is None:
            return opened.reshape(shape)
        given = opened.reshape([shape[place] for place in self.axes])
        return np.ascontiguousarray(given.transpose(np.argsort(self.axes)))


def _index(
    columns: Sequence[Numbers], bins: Sequence[tuple[int, ...]], shape: tuple[int, ...]
) -> Numbers:
    """Which combination of bins every record has, −1 where a cell is another party's."""
    index = np.zeros(len(columns[0]), np.int64)
    held = np.ones(len(index), np.bool_)
    for column, one, size in zip(columns, bins, shape, strict=True):
        # The last entry is for cells of others, whose code is −1.
        index = index * size + np.array([*one, 0], np.int64)[column]
        held &= column >= 0
    return np.where(held, index, -1)


def _blocks(pairs: Sequence[tuple[_Side, _Side]]) -> list[list[tuple[_Side, _Side]]]:
    """One product for all pairs, unless most of it would not be asked for."""
    lefts = {left: left.cells for left, _ in pairs}
    rights = {right: right.cells for _, right in pairs}
    asked = sum(left.cells * right.cells for left, right in pairs)
    if sum(lefts.values()) * sum(rights.values()) <= 8 * asked:
        return [list(pairs)]
    # Those on the left that meet the same ones on the right go together.
    meets: dict[_Side, list[_Side]] = {}
    for left, right in pairs:
        meets.setdefault(left, []).append(right)
    blocks: dict[frozenset[_Side], list[tuple[_Side, _Side]]] = {}
    for left, others in meets.items():
        blocks.setdefault(frozenset(others), []).extend((left, one) for one in others)
    return list(blocks.values())


def _starts(sides: Sequence[_Side]) -> dict[_Side, int]:
    ends = np.cumsum([0, *(one.cells for one in sides)])
    return {one: int(start) for one, start in zip(sides, ends, strict=False)}


@dataclass(frozen=True, kw_only=True)
class Insiders:
    """What histograms cost in the eyes of outsiders and of each party that computes."""

    outsiders: Fraction
    insiders: Fraction

    @classmethod
    def of(cls, requests: Sequence[Request], parties: int) -> Insiders:
        """The costs of requests: ε for Laplace noise, ρ for Gaussian.

        >>> from sherd.methods.graphical.measuring import Binned, Marginal, Request
        >>> one = Request(marginal=Marginal(attributes=(0,), bins=((0, 1),)),
        ...               noise=Noise(kind="gaussian", scale=Fraction(10)))
        >>> costs = Insiders.of([one], 2)
        >>> float(costs.outsiders), float(costs.insiders)
        (0.01, 0.02)
        """
        outsiders = insiders = Fraction(0)
        for one in requests:
            if one.noise.kind == "laplace":
                outsiders += one.noise.cost
                insiders += one.noise.cost
                continue
            # The sum of all parts costs no more than the noise that was asked for; without one's
            # own, P − 1 parts of P are left.
            outsiders += one.noise.cost
            insiders += one.noise.cost * parties / (parties - 1)
        return cls(outsiders=outsiders, insiders=insiders)
