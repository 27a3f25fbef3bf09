"""An engine that takes from a journal what it has, and has all parties sign what it opens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sherd.errors import VerificationError
from sherd.secure.engine.shapes import NotKnownError, Shapes
from sherd.secure.party.run_journal import SignedResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sherd.secure.engine.interface import JointEngine
    from sherd.secure.party.run_journal import RunJournal


class CoSigning(Protocol):
    """How a party has a result signed by all."""

    def __call__(self, what: str, values: tuple[int, ...], text: bytes, /) -> tuple[str, ...]:
        """Every party's signature of a text, in the order of their places, all of them valid."""


class Stepping(Protocol):
    """Random words that are told at which step a run is."""

    def at(self, step: int) -> None:
        """Begin with the words of a step."""


def _passed_on(name: str) -> Any:
    """An operation of the engine or, while results are known, of shapes alone."""

    def operation(self: JournaledEngine, *given: Any) -> Any:
        return getattr(self.engine, name)(*given)

    return operation


class JournaledEngine:
    """A ``JointEngine`` whose results come from the journal as long as it has any.

    Nothing is computed for a result that is known. A new one is signed by all and written down
    before it is used. ``words`` are told at which step the run is.
    """

    def __init__(
        self,
        engine: JointEngine,
        journal: RunJournal,
        sign: CoSigning | None = None,
        words: Stepping | None = None,
    ) -> None:
        self._engine, self._journal, self._sign = engine, journal, sign
        self._step_begins: Callable[[int], None] = (
            (lambda _step: None) if words is None else words.at
        )
        self._shapes = Shapes(engine.parties)
        self._opened = 0
        self._step_begins(0)

    @property
    def parties(self) -> int:
        """How many owners give input."""
        return self._engine.parties

    @property
    def engine(self) -> JointEngine:
        """Who computes the next result: nobody, where it is known."""
        return self._shapes if self._opened < len(self._journal.entries) else self._engine

    share = _passed_on("share")
    share_bits = _passed_on("share_bits")
    random = _passed_on("random")
    add = _passed_on("add")
    scale = _passed_on("scale")
    reshape = _passed_on("reshape")
    take = _passed_on("take")
    block = _passed_on("block")
    join = _passed_on("join")
    stack = _passed_on("stack")
    sum = _passed_on("sum")
    less = _passed_on("less")
    maximum = _passed_on("maximum")
    largest = _passed_on("largest")
    multiply = _passed_on("multiply")
    inner = _passed_on("inner")
    settle = _passed_on("settle")

    def open(self, a: Any, what: str) -> NDArray[np.int64]:
        """The journal's result, or a new one that all sign and each writes down first."""
        if self._opened == len(self._journal.entries):
            if self._sign is None:
                raise NotKnownError(what, a.shape)
            values = tuple(int(value) for value in self._engine.open(a, what).ravel())
            signatures = self._sign(what, values, self._journal.next_text(what, values))
            self._journal.append(SignedResult(what=what, values=values, signatures=signatures))
        known = self._journal.entries[self._opened]
        if known.what != what or len(known.values) != int(np.prod(a.shape)):
            raise VerificationError("the journal does not fit the run", must=what, got=known.what)
        self._opened += 1
        self._step_begins(self._opened)
        return np.array(known.values, np.int64).reshape(a.shape)
