"""``JointEngine``: what the joint release asks of secure computation, and nothing more.

Values are whole numbers modulo 2^64, read as signed, that nobody knows. A secret is an array of
them; its shape is public. Every party runs the same program; its own numbers come from a callable
that is called at that party only. ``open`` is the one way out, and says what it opens.

``PlainEngine`` plays all parties in one process and keeps its values as additive shares, so
that what a party would see can be looked at. It protects nothing: it is the oracle of tests,
and the simulation by which utility is compared.

Owners that do not compute share their numbers out to the parties that do (``guests``).

Notation: P the number of parties that compute, the owners 0 … P − 1.

Of additive shares modulo 2^64 all but one are uniform words; the last is what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sherd.errors import PolicyError
from sherd.randomness import Randomness

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


WORD_BITS = 62
"""Random words have this many bits: the sum of two of them is still not negative."""


class JointEngine(Protocol):
    """Secure computation on whole numbers by the parties that call it together."""

    @property
    def parties(self) -> int:
        """How many owners give input."""

    def share(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Any:
        """The owner's numbers as a secret; ``own`` is called at the owner only."""

    def share_bits(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Any:
        """The owner's zeros and ones, for ``multiply`` alone: where it can be, at less cost."""

    def random(self, n: int, bits: int = WORD_BITS) -> Any:
        """Numbers uniform below 2^bits, n of them, that no set of parties but all knows."""

    def add(self, a: Any, b: Any) -> Any:
        """The sum of two secrets, or of a secret and public numbers."""

    def scale(self, a: Any, factor: Numbers | int) -> Any:
        """A secret times public numbers."""

    def reshape(self, a: Any, shape: tuple[int, ...]) -> Any:
        """The same numbers in another shape."""

    def take(self, a: Any, start: int, stop: int) -> Any:
        """Some neighbouring numbers of a flat secret."""

    def block(self, a: Any, rows: slice, columns: slice) -> Any:
        """Some neighbouring rows and columns of a matrix, as a flat secret."""

    def join(self, parts: Sequence[Any]) -> Any:
        """Flat secrets one behind the other."""

    def stack(self, parts: Sequence[Any]) -> Any:
        """Flat secrets of equal length side by side, as columns."""

    def sum(self, a: Any) -> Any:
        """Sums over the last axis."""

    def less(self, a: Any, bound: Numbers | int) -> Any:
        """1 where a secret is below a public bound, 0 elsewhere; neither may be below 0."""

    def maximum(self, a: Any) -> Any:
        """The largest over the last axis."""

    def largest(self, a: Any) -> Any:
        """The place of the largest over the last axis, the first of equal ones."""

    def multiply(self, a: Any, b: Any) -> Any:
        """The product of two secrets, number by number; shapes are broadcast as numpy does."""

    def inner(self, a: Any, b: Any) -> Any:
        """For every row of the one and every row of the other the sum of their products."""

    def settle(self, a: Any, what: str) -> Any:
        """The same secret, computed now: what it was made of is no longer kept."""

    def open(self, a: Any, what: str) -> Numbers:
        """Tell everybody the numbers; ``what`` names them in the transcript."""


@dataclass(frozen=True, kw_only=True)
class Opened:
    """One entry of the transcript of what was opened: a name and how many numbers."""

    what: str
    count: int


class PlainEngine:
    """All parties in one process, on additive shares modulo 2^64; it protects nothing."""

    def __init__(self, sources: Sequence[Words], guests: int = 0) -> None:
        if len(sources) < 2:
            raise PolicyError(
                "a joint computation needs more parties",
                must="at least two",
                got=str(len(sources)),
                do="one owner alone uses diffgen",
            )
        self._sources, self._guests = sources, guests
        # Masks have a source of their own: what a party draws must not shift with them.
        self._masks = Randomness.from_system()
        self.transcript: list[Opened] = []

    @property
    def parties(self) -> int:
        """How many owners give input."""
        return len(self._sources) + self._guests

    def share(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Shares:
        """The owner's numbers, split into uniform shares."""
        del owner
        return self._again(np.asarray(own(), np.int64).reshape(shape))

    def share_bits(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Shares:
        """As any numbers."""
        return self.share(owner, own, shape)

    def random(self, n: int, bits: int = WORD_BITS) -> Shares:
        """Each party's word added up, a carry taken off after each."""
        keep = np.uint64(2**bits - 1)
        total: Shares | None = None
        for party, source in enumerate(self._sources):
            words = (source.words(n) & keep).view(np.int64)
            mine = self.share(party, lambda words=words: words, (n,))  # type: ignore[misc]
            if total is None:
                total = mine
                continue
            total = self.add(total, mine)
            below = self.less(total, 2**bits)
            carry = self.add(self.scale(below, -1), np.ones(n, np.int64))
            total = self.add(total, self.scale(carry, -(2**bits)))
        assert total is not None
        return total

    def add(self, a: Shares, b: Shares | Numbers) -> Shares:
        """Share by share; public numbers go to the first."""
        if isinstance(b, Shares):
            return Shares(parts=tuple(x + y for x, y in zip(a.parts, b.parts, strict=True)))
        first = a.parts[0] + np.asarray(b, np.int64).view(np.uint64)
        return Shares(parts=(first, *(x + np.zeros_like(first) for x in a.parts[1:])))

    def scale(self, a: Shares, factor: Numbers | int) -> Shares:
        """Share by share."""
        by = np.asarray(factor, np.int64).view(np.uint64)
        return Shares(parts=tuple(x * by for x in a.parts))

    def reshape(self, a: Shares, shape: tuple[int, ...]) -> Shares:
        """Share by share."""
        return Shares(parts=tuple(x.reshape(shape) for x in a.parts))

    def take(self, a: Shares, start: int, stop: int) -> Shares:
        """Share by share."""
        return Shares(parts=tuple(x[start:stop] for x in a.parts))

    def block(self, a: Shares, rows: slice, columns: slice) -> Shares:
        """Share by share."""
        return Shares(parts=tuple(x[rows, columns].ravel() for x in a.parts))

    def join(self, parts: Sequence[Shares]) -> Shares:
        """Share by share."""
        every = zip(*(one.parts for one in parts), strict=True)
        return Shares(parts=tuple(np.concatenate(column) for column in every))

    def stack(self, parts: Sequence[Shares]) -> Shares:
        """Share by share."""
        every = zip(*(one.parts for one in parts), strict=True)
        return Shares(parts=tuple(np.stack(column, axis=-1) for column in every))

    def sum(self, a: Shares) -> Shares:
        """Share by share."""
        return Shares(parts=tuple(x.sum(axis=-1, dtype=np.uint64) for x in a.parts))

    def less(self, a: Shares, bound: Numbers | int) -> Shares:
        """In the clear, and shared again."""
        return self._again((a.value < np.asarray(bound)).astype(np.int64))

    def maximum(self, a: Shares) -> Shares:
        """In the clear, and shared again."""
        return self._again(a.value.max(axis=-1))

    def largest(self, a: Shares) -> Shares:
        """In the clear, and shared again."""
        return self._again(np.argmax(a.value, axis=-1))

    def multiply(self, a: Shares, b: Shares) -> Shares:
        """In the clear, and shared again."""
        return self._again(a.value * b.value)

    def inner(self, a: Shares, b: Shares) -> Shares:
        """In the clear, and shared again."""
        return self._again(a.value @ b.value.T)

    def settle(self, a: Shares, what: str) -> Shares:
        """Nothing is left to compute."""
        del what
        return a

    def _again(self, values: Numbers) -> Shares:
        return Shares(parts=split(values, len(self._sources), self._masks))

    def open(self, a: Shares, what: str) -> Numbers:
        """Add up the shares."""
        self.transcript.append(Opened(what=what, count=a.value.size))
        return a.value


@dataclass(frozen=True, kw_only=True)
class Shares:
    """An array as one share for each party; their sum modulo 2^64 is the value."""

    parts: tuple[NDArray[np.uint64], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The array's shape."""
        return self.parts[0].shape

    @property
    def value(self) -> Numbers:
        """What the shares hide."""
        total = sum(self.parts[1:], self.parts[0])
        return np.asarray(total, np.uint64).view(np.int64)


class Words(Protocol):
    """Where a party's uniform words come from."""

    def words(self, n: int) -> NDArray[np.uint64]:
        """The next n words."""


def split(
    values: NDArray[np.int64], parts: int, randomness: Words
) -> tuple[NDArray[np.uint64], ...]:
    """Shares whose sum modulo 2^64 is the value; all but the last are uniform words.

    >>> from sherd.randomness import Randomness
    >>> first, second = split(np.array([-5, 7]), 2, Randomness.seeded(1))
    >>> (first + second).view(np.int64)
    array([-5,  7])
    """
    masks = [randomness.words(values.size).reshape(values.shape) for _ in range(parts - 1)]
    last = np.ascontiguousarray(values, np.int64).view(np.uint64)
    return (*masks, last - sum(masks, np.zeros(values.shape, np.uint64)))
