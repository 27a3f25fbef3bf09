"""Owners that do not compute: they share their numbers out to the parties that do.

Secure computation is between two or three parties. Any number of owners can take part: one that
does not compute, a guest, splits each of its numbers into additive shares modulo 2^64, one for
each computing party, the host. All but one share are uniform words, and the last is what is
missing to the number, so any set of hosts but all of them sees uniform words whatever the number
is. Inside the computation the hosts' shares are added up.

Guests run the same program as everybody, know what is opened, and need no secure computation of
their own. All hosts tell a guest what was opened: it believes what they agree on.

Notation: P the number of hosts, owners 0 … P − 1; guests follow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from sherd.errors import VerificationError
from sherd.secure.engine.interface import split
from sherd.secure.engine.shapes import Shape, Shapes

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sherd.randomness import Randomness

    Numbers = NDArray[np.int64]
    Words = NDArray[np.uint64]


class Wire(Protocol):
    """What owners need of their connections with each other; owners are named by their place."""

    def send_numbers(self, owner: int, numbers: Words) -> None:
        """Send an array."""

    def receive_numbers(self, owner: int, count: int) -> Words:
        """Wait for an array of that many numbers."""

    def send_opened(self, owner: int, what: str, values: tuple[int, ...]) -> None:
        """Tell an owner what was opened."""

    def receive_opened(self, owner: int) -> tuple[str, tuple[int, ...]]:
        """Wait for what was opened."""


class GuestEngine(Shapes):
    """A guest's side of the computation: it shares its input out and learns what is opened."""

    def __init__(
        self, wire: Wire, owner: int, owners: int, hosts: int, randomness: Randomness
    ) -> None:
        super().__init__(owners)
        self._wire, self._owner, self._hosts = wire, owner, hosts
        self._randomness = randomness

    def share(self, owner: int, own: Callable[[], Numbers], shape: tuple[int, ...]) -> Shape:
        """Send this party's own numbers as shares; those of others do not pass here."""
        if owner == self._owner:
            values = np.ascontiguousarray(own(), np.int64).reshape(shape)
            for host, part in enumerate(split(values, self._hosts, self._randomness)):
                self._wire.send_numbers(host, part)
        return Shape(shape=shape)

    def open(self, a: Shape, what: str) -> Numbers:
        """What all hosts say was opened."""
        answers = [self._wire.receive_opened(host) for host in range(self._hosts)]
        named, values = answers[0]
        if (
            any(one != answers[0] for one in answers)
            or named != what
            or len(values) != np.prod(a.shape)
        ):
            raise VerificationError(
                "the computing parties disagree",
                must=f"{what}: {a.shape}, equal from all of them",
                do="the run cannot go on; find out which of them differs",
            )
        return np.array(values, np.int64).reshape(a.shape)
