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

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from numpy.typing import NDArray

Entry = tuple[str, tuple[int, ...]]
"""What was opened, and its numbers."""


@dataclass(kw_only=True)
class Journal:
    """The opened results of one run, which ``run`` (a hash of what was agreed) names."""

    path: Path
    run: str
    entries: list[Entry] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path, run: str) -> Journal:
        """The journal of a run: what the file holds of it, nothing where it is another's."""
        if not path.exists():
            return cls(path=path, run=run)
        lines = path.read_text(encoding="utf-8").split("\n")
        entries: list[Entry] = []
        try:
            if run_of(path) != run:
                raise FormatError(
                    "the journal belongs to another run",
                    got=str(path),
                    do="finish that run, or move its journal away",
                )
            for line in lines[1:-1]:  # what follows the last line's end was not written whole
                what, values = json.loads(line)
                entries.append((str(what), tuple(int(value) for value in values)))
        except (ValueError, KeyError, TypeError, IndexError) as error:
            if isinstance(error, FormatError):
                raise
            raise FormatError("the journal cannot be read", got=str(path)) from None
        journal = cls(path=path, run=run, entries=entries)
        journal._write_all()
        return journal

    def append(self, what: str, values: tuple[int, ...]) -> None:
        """Write a result down; it is on disk when this returns."""
        self.begin()
        self.entries.append((what, values))
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps([what, list(values)]) + "\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StorageError(
                "the journal cannot be written", got=f"{self.path}: {error.strerror}"
            ) from None

    def begin(self) -> None:
        """Write the run's name down, before anything is opened."""
        if not self.path.exists():
            self._write_all()

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
        if longest != self.entries:
            self.entries = list(longest)
            self._write_all()

    def _write_all(self) -> None:
        from sherd.tables.files import write_whole

        lines = [json.dumps({"run": self.run})]
        lines += [json.dumps([what, list(values)]) for what, values in self.entries]
        write_whole(self.path, ("\n".join(lines) + "\n").encode())


def run_of(path: Path) -> str | None:
    """The name of the run a journal belongs to; None where there is no journal."""
    if not path.exists():
        return None
    try:
        return str(json.loads(path.read_text(encoding="utf-8").split("\n")[0])["run"])
    except (ValueError, KeyError, TypeError):
        raise FormatError("the journal cannot be read", got=str(path)) from None


class Resumed:
    """An engine that takes from a journal what it has, and writes down what it opens."""

    def __init__(self, engine: Any, journal: Journal) -> None:
        self._engine, self._journal = engine, journal
        self._opened = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._engine, name)

    def inner(self, own: Callable[[int], NDArray[np.uint8]], rows: int, columns: int) -> Any:
        """Not computed where the result it leads to is known."""
        if self._opened < len(self._journal.entries):
            return self._engine.share(0, lambda: np.zeros(columns, np.int64), (columns,))
        return self._engine.inner(own, rows, columns)

    def open(self, a: Any, what: str) -> NDArray[np.int64]:
        """The journal's result, or a new one that is written down first."""
        if self._opened < len(self._journal.entries):
            known, values = self._journal.entries[self._opened]
            if known != what or len(values) != int(np.prod(a.shape)):
                raise VerificationError("the journal does not fit the run", must=what, got=known)
            self._opened += 1
            return np.array(values, np.int64).reshape(a.shape)
        opened: NDArray[np.int64] = self._engine.open(a, what)
        self._journal.append(what, tuple(int(value) for value in opened.ravel()))
        self._opened += 1
        return opened
