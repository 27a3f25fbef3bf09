"""The journal of a joint run: what was opened, on disk before it is used.

A run that breaks off is started again by all parties. What had been opened must not be drawn
again with fresh noise: two noisy answers to one question cost twice. So every opened result is
appended to a file and synced before the run goes on, and a run that is started again takes from
the journal what is there and computes the rest. A party may know one result more than another;
the longest journal counts, and a journal that contradicts it stops the run.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from sherd.errors import FormatError, StorageError, VerificationError
from sherd.secure.engine.shapes import Shapes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

    from sherd.secure.engine.interface import JointEngine

Entry = tuple[str, tuple[int, ...]]
"""What was opened, and its numbers."""


@dataclass(kw_only=True)
class Journal:
    """The opened results of one run.

    ``run`` names it, and no other; ``statement`` is what the parties agreed on for it.
    """

    path: Path
    run: str
    statement: dict[str, Any]
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path) -> Journal | None:
        """The journal in a file, which is left as it is; None where there is none."""
        if not path.exists():
            return None
        try:
            head, *lines = path.read_text(encoding="utf-8").split("\n")
            told = json.loads(head)
            # What follows the last line's end was not written whole.
            return cls(
                path=path,
                run=str(told["run"]),
                statement=dict(told["statement"]),
                entries=entries_of([json.loads(line) for line in lines[:-1]]),
            )
        except (ValueError, KeyError, TypeError):
            raise FormatError("the journal cannot be read", got=str(path)) from None

    def begin(self) -> None:
        """Write down all that is known of the run, before anything more is opened."""
        from sherd.tables.files import write_whole

        lines = [json.dumps({"run": self.run, "statement": self.statement})]
        lines += [json.dumps([what, list(values)]) for what, values in self.entries]
        write_whole(self.path, ("\n".join(lines) + "\n").encode())

    def append(self, what: str, values: tuple[int, ...]) -> None:
        """Write a result down; it is on disk when this returns."""
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([what, list(values)]) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(
                "the journal cannot be written", got=f"{self.path}: {error.strerror}"
            ) from None
        self.entries.append((what, values))

    def adopt(self, others: list[list[Entry]]) -> None:
        """Take over the longest of all parties' journals, if none contradicts it."""
        longest = max([self.entries, *others], key=len)
        for one in [self.entries, *others]:
            if longest[: len(one)] != one:
                raise VerificationError(
                    "the parties' journals contradict each other",
                    must="the same opened results at all parties",
                    do="start anew with another population or a new budget",
                )
        self.entries = list(longest)

    def finish(self) -> None:
        """Set the journal aside: its run is over, and can still be told to others."""
        self.path.replace(finished(self.path))


def finished(path: Path) -> Path:
    """Where the journal of a finished run lies."""
    return path.with_suffix(".finished")


def entries_of(data: Any) -> list[Entry]:
    """Opened results from plain data; raises ValueError or TypeError where it holds others.

    >>> entries_of([["places of choices", [3]]])
    [('places of choices', (3,))]
    """
    found: list[Entry] = []
    for what, values in data:
        if not isinstance(what, str) or any(type(value) is not int for value in values):
            raise TypeError(what)
        if any(not -(2**63) <= value < 2**63 for value in values):
            raise ValueError(what)
        found.append((what, tuple(values)))
    return found


class Resumed:
    """An engine that takes from a journal what it has, and writes down what it opens.

    Nothing is computed for a result that is known. ``tell`` is called with every result that is
    new, after it was written down.
    """

    def __init__(
        self,
        engine: JointEngine,
        journal: Journal,
        tell: Callable[[str, tuple[int, ...]], None] = lambda _what, _values: None,
    ) -> None:
        self._engine, self._journal, self._tell = engine, journal, tell
        self._shapes = Shapes(engine.parties)
        self._opened = 0

    @property
    def _known(self) -> bool:
        return self._opened < len(self._journal.entries)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._shapes if self._known else self._engine, name)

    def open(self, a: Any, what: str) -> NDArray[np.int64]:
        """The journal's result, or a new one that is written down first."""
        if self._known:
            known, values = self._journal.entries[self._opened]
            if known != what or len(values) != int(np.prod(a.shape)):
                raise VerificationError("the journal does not fit the run", must=what, got=known)
        else:
            values = tuple(int(value) for value in self._engine.open(a, what).ravel())
            self._journal.append(what, values)
            self._tell(what, values)
        self._opened += 1
        return np.array(values, np.int64).reshape(a.shape)
