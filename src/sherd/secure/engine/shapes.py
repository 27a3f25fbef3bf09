"""An engine that knows shapes and nothing else.

Every party runs the same program, also one that computes nothing: an owner whose numbers others
compute with, and a party that takes results from a journal. What the program then needs of an
operation is the shape of its result, which is public.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sherd.secure.engine.interface import WORD_BITS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Numbers = NDArray[np.int64]


class NotKnownError(LookupError):
    """A result is asked for that is not known here."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """A secret of which nothing is here but its shape."""

    shape: tuple[int, ...]


class Shapes:
    """The operations of a ``JointEngine``, on shapes; it neither shares nor opens anything."""

    def __init__(self, parties: int) -> None:
        self._parties = parties

    @property
    def parties(self) -> int:
        """How many owners give input."""
        return self._parties

    def share(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Shape:
        """The owner's numbers, which are not asked for."""
        del owner, own
        return Shape(shape=shape)

    def share_bits(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Shape:
        """As any numbers."""
        return self.share(owner, own, shape)

    def random(self, n: int, bits: int = WORD_BITS) -> Shape:
        """Random numbers that somebody else draws."""
        del bits
        return Shape(shape=(n,))

    def add(self, a: Shape, b: Shape | Numbers) -> Shape:
        """The shape of a sum."""
        return Shape(shape=np.broadcast_shapes(a.shape, np.shape(b)))

    def scale(self, a: Shape, factor: Numbers | int) -> Shape:
        """The shape of a product."""
        return Shape(shape=np.broadcast_shapes(a.shape, np.shape(factor)))

    def reshape(self, a: Shape, shape: tuple[int, ...]) -> Shape:
        """Another shape of as many numbers."""
        assert np.prod(a.shape) == np.prod(shape)
        return Shape(shape=shape)

    def take(self, a: Shape, start: int, stop: int) -> Shape:
        """The shape of a slice."""
        del a
        return Shape(shape=(stop - start,))

    def block(self, a: Shape, rows: slice, columns: slice) -> Shape:
        """The shape of a flat piece of a matrix."""
        height, width = (
            len(range(*s.indices(k))) for s, k in zip((rows, columns), a.shape, strict=True)
        )
        return Shape(shape=(height * width,))

    def join(self, parts: Sequence[Shape]) -> Shape:
        """The shape of flat secrets one behind the other."""
        return Shape(shape=(sum(one.shape[0] for one in parts),))

    def stack(self, parts: Sequence[Shape]) -> Shape:
        """The shape of flat secrets side by side."""
        return Shape(shape=(*parts[0].shape, len(parts)))

    def sum(self, a: Shape) -> Shape:
        """One number for each row."""
        return Shape(shape=a.shape[:-1])

    def less(self, a: Shape, bound: Numbers | int) -> Shape:
        """The shape of a comparison."""
        del bound
        return a

    def maximum(self, a: Shape) -> Shape:
        """One number for each row."""
        return Shape(shape=a.shape[:-1])

    def largest(self, a: Shape) -> Shape:
        """One number for each row."""
        return Shape(shape=a.shape[:-1])

    def multiply(self, a: Shape, b: Shape) -> Shape:
        """The shape of a product."""
        return Shape(shape=np.broadcast_shapes(a.shape, b.shape))

    def inner(self, a: Shape, b: Shape) -> Shape:
        """One number for each pair of rows."""
        assert a.shape[1] == b.shape[1]
        return Shape(shape=(a.shape[0], b.shape[0]))

    def settle(self, a: Shape, what: str) -> Shape:
        """Nothing is here to be computed."""
        del what
        return a

    def open(self, a: Shape, what: str) -> Numbers:
        """Nothing is here to be opened."""
        raise NotKnownError(what, a.shape)
