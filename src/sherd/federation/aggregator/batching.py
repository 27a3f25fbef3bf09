"""Work of many threads on one thing, done together: the thread that comes first does it for all.

While a transaction is being synced to disk, messages for the same round pile up; the next
transaction takes all of them, so that a round of many owners is written down a few times
instead of once for every message. Nobody is answered before what they brought is on disk.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

J = TypeVar("J")


class _Turn(Generic[J]):
    def __init__(self, job: J) -> None:
        self.job = job
        self.done = threading.Event()
        self.error: BaseException | None = None


class Together(Generic[J]):
    """Calls ``work(key, jobs)`` with all jobs of a key that wait, one call at a time."""

    def __init__(self, work: Callable[[str, list[J]], None]) -> None:
        self._work = work
        self._lock = threading.Lock()
        self._waiting: dict[str, list[_Turn[J]]] = {}
        self._busy: set[str] = set()

    def do(self, key: str, job: J) -> None:
        """Have a job done, with others; an error of ``work`` is everybody's whose job it was."""
        turn = _Turn(job)
        with self._lock:
            self._waiting.setdefault(key, []).append(turn)
            leads = key not in self._busy
            self._busy.add(key)
        if leads:
            self._lead(key)
        turn.done.wait()
        if turn.error is not None:
            raise turn.error

    def _lead(self, key: str) -> None:
        """Do what waits until nothing does."""
        while True:
            with self._lock:
                turns = self._waiting.pop(key, [])
                if not turns:
                    self._busy.discard(key)
                    return
            try:
                self._work(key, [turn.job for turn in turns])
            except BaseException as error:
                for turn in turns:
                    turn.error = error
            for turn in turns:
                turn.done.set()
