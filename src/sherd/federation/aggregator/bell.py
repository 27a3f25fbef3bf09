"""The bell: owners that wait for messages are handed those that were just written down.

Messages are handed over by value, after the transaction that holds them has committed, so that an
owner that waits is answered without another look at the database. What another process of ours
wrote is looked up instead. A receipt alone wakes nobody at once: there is nothing to do about it,
and what follows mostly comes soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sherd.federation.protocol.messages import MessageType

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sherd.federation.protocol.messages import Message

LINGER_SECONDS = 3.0
"""How long a message that asks for nothing waits for another to travel with."""

UNHURRIED = frozenset({MessageType.RECEIPT})


@dataclass(frozen=True, kw_only=True)
class Letter:
    """An envelope to somebody, which is in the database already."""

    round: str
    sequence: int
    type: MessageType
    raw: bytes


Letters = Mapping[str, Sequence[Letter]]
"""Who was sent what, by recipient."""


def letters_of(messages: Sequence[Message], raws: Iterable[bytes]) -> Letters:
    """Messages by who gets them, each with its envelope."""
    letters: dict[str, list[Letter]] = {}
    for message, raw in zip(messages, raws, strict=True):
        letter = Letter(round=message.round, sequence=message.sequence, type=message.type, raw=raw)
        letters.setdefault(message.recipient, []).append(letter)
    return letters


@dataclass(eq=False)
class Ear:
    """Somebody who waits: what came for them since they began to listen."""

    event: asyncio.Event = field(default_factory=asyncio.Event)
    letters: list[Letter] = field(default_factory=list)

    async def hear(self, seconds: float) -> None:
        """Wait until the bell is rung, at most so long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.event.wait(), seconds)
        self.event.clear()

    def in_order(self, seen: Mapping[str, int]) -> list[bytes] | None:
        """The messages that came, by round and in order; None where one before them is missing."""
        last, raws = dict(seen), []
        for letter in sorted(self.letters, key=lambda each: (each.round, each.sequence)):
            known = last.get(letter.round, 0)
            if letter.sequence > known + 1:
                return None
            if letter.sequence == known + 1:
                last[letter.round] = letter.sequence
                raws.append(letter.raw)
        return raws


class Bell:
    """Hands messages to those who wait for them; rung from any thread."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._waiting: dict[str, set[Ear]] = {}
        self._handed: dict[tuple[str, str], int] = {}
        self.work = threading.Event()
        self.is_closed = False

    def start(self) -> None:
        """Remember the loop that waits."""
        self._loop = asyncio.get_running_loop()

    @property
    def is_heard(self) -> bool:
        """Whether anybody waits."""
        return bool(self._waiting)

    def ring(self, sent: Letters) -> None:
        """These were sent to these, or there may be work."""
        self.work.set()
        if not sent:
            return
        hurried, unhurried = list[Ear](), list[Ear]()
        with self._lock:
            for name, letters in sent.items():
                for letter in letters:
                    place = name, letter.round
                    self._handed[place] = max(letter.sequence, self._handed.get(place, 0))
                waits = all(letter.type in UNHURRIED for letter in letters)
                for ear in self._waiting.get(name, ()):
                    ear.letters.extend(letters)
                    (unhurried if waits else hurried).append(ear)
        self._wake(hurried, 0.0)
        self._wake(unhurried, LINGER_SECONDS)

    def look(self, newest: Mapping[tuple[str, str], int]) -> None:
        """Wake those to whom another process wrote; ``newest`` is the last to each of a round."""
        with self._lock:
            handed = {place: self._handed.get(place, 0) for place in newest}
            others = {place[0] for place, last in newest.items() if last > handed[place]}
            self._handed = {place: max(last, handed[place]) for place, last in newest.items()}
            ears = [ear for name in others for ear in self._waiting.get(name, ())]
        self._wake(ears, 0.0)

    def close(self) -> None:
        """Wake everybody: the service stops, and nobody is to be kept waiting."""
        self.is_closed = True
        with self._lock:
            ears = [ear for waiting in self._waiting.values() for ear in waiting]
        self._wake(ears, 0.0)

    def _wake(self, ears: Sequence[Ear], seconds: float) -> None:
        loop = self._loop
        if not ears or loop is None or loop.is_closed():
            return

        def wake() -> None:
            for ear in ears:
                ear.event.set()

        if seconds:
            loop.call_soon_threadsafe(loop.call_later, seconds, wake)
        else:
            loop.call_soon_threadsafe(wake)

    def listen(self, name: str, ear: Ear) -> None:
        """Hand what is sent to somebody from now on to this ear, too.

        An owner that listens before it looks misses nothing that comes after.
        """
        with self._lock:
            self._waiting.setdefault(name, set()).add(ear)

    def forget(self, name: str, ear: Ear) -> None:
        """Nobody listens with this ear any more."""
        with self._lock:
            ears = self._waiting.get(name, set())
            ears.discard(ear)
            if not ears:
                self._waiting.pop(name, None)

    @contextlib.contextmanager
    def listening(self, name: str) -> Iterator[Ear]:
        """An ear for as long as a block lasts."""
        ear = Ear()
        self.listen(name, ear)
        try:
            yield ear
        finally:
            self.forget(name, ear)
