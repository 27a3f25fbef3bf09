"""``sherd`` with one fault in it: run by tests as a party that misbehaves or dies.

Arguments: the fault, then those of ``sherd``.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

import sherd.secure.engine.spu_engine
from sherd.cli import run
from sherd.secure.party import message_frames
from sherd.secure.party.connection import Connection
from sherd.secure.party.run_journal import RunJournal, SignedResult

FRAMES = {
    "garbage": os.urandom(64),
    "oversize": b"shrdm" + (2**60).to_bytes(8, "big"),
    "truncated": message_frames.frame(message_frames.MESSAGE, b'{"terms": {}}')[:-4],
    "wrong-type": message_frames.frame(message_frames.MESSAGE, b'["hello"]'),
    "wrong-kind": message_frames.frame(message_frames.NUMBERS, bytes(800)),
}


def send_frames(fault: str) -> None:
    """The first message is something else, and then the party leaves."""

    async def send(self: Any, _kind: bytes, _content: bytes) -> None:
        self._writer.write(FRAMES[fault])
        await self._writer.drain()
        await asyncio.sleep(0.5)
        os._exit(9)

    Connection.send = send  # type: ignore[assignment,method-assign]


def send_shares(fault: str) -> None:
    """Shares that are opened are no shares."""
    engine: Any = sherd.secure.engine.spu_engine
    good = engine.framed

    def framed(parts: Any) -> bytes:
        if fault == "shares-cut":
            return good(parts)[:-3]
        return good([os.urandom(40), *(os.urandom(len(part)) for part in parts[1:])])

    engine.framed = framed


def send_too_few(_fault: str) -> None:
    """An owner that does not compute sends fewer numbers than it should, then messages."""

    async def send_bytes(self: Any, data: bytes) -> None:
        await self.send(message_frames.NUMBERS, data[:-8])
        await self.send(message_frames.MESSAGE, b"{}")

    Connection.send_bytes = send_bytes  # type: ignore[method-assign]


def die(fault: str) -> None:
    """The process ends when the last result is opened: before or after it is written down."""
    append = RunJournal.append

    def dying(self: RunJournal, entry: SignedResult) -> None:
        if entry.what == "noisy counts" and fault == "dies-before-writing":
            os._exit(9)
        append(self, entry)
        if entry.what == "noisy counts":
            os._exit(9)

    RunJournal.append = dying  # type: ignore[method-assign]


if __name__ == "__main__":
    faults = {**dict.fromkeys(FRAMES, send_frames), "shares-cut": send_shares,
              "shares-random": send_shares, "too-few": send_too_few,
              "dies-before-writing": die, "dies-before-publishing": die}  # fmt: skip
    faults[sys.argv[1]](sys.argv[1])
    sys.exit(run([*sys.argv[2:], "--unwatched"]))
