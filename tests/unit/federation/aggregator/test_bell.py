"""The bell: what was just written down is handed to those who wait, in order, without a look."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from sherd.federation.aggregator import bell as bell_module
from sherd.federation.aggregator.bell import Bell, Ear, Letter
from sherd.federation.protocol.messages import MessageType

if TYPE_CHECKING:
    import pytest


def letter(sequence: int, kind: MessageType = MessageType.PROPOSAL, of: str = "r1") -> Letter:
    """An envelope of a round."""
    raw = f"{of} {sequence}".encode()
    return Letter(round=of, sequence=sequence, type=kind, raw=raw)


def test_letters_come_in_order_and_once() -> None:
    """However they were rung, by round and number; what was seen before is left out."""
    ear = Ear(letters=[letter(4), letter(1, of="r2"), letter(3), letter(2), letter(3)])
    assert ear.in_order({"r1": 2}) == [b"r1 3", b"r1 4", b"r2 1"]
    assert ear.in_order({"r1": 4, "r2": 1}) == []


def test_a_gap_is_told() -> None:
    """Where a message before is missing, the database has to be asked."""
    assert Ear(letters=[letter(3)]).in_order({"r1": 1}) is None
    assert Ear(letters=[letter(2)]).in_order({}) is None


async def _heard(ear: Ear, seconds: float) -> bool:
    try:
        await asyncio.wait_for(ear.event.wait(), seconds)
    except TimeoutError:
        return False
    return True


def test_who_listens_is_woken_with_the_message() -> None:
    """Only they, and with the very bytes; nobody after they have stopped listening."""

    async def play() -> None:
        bell = Bell()
        bell.start()
        with bell.listening("north") as north, bell.listening("south") as south:
            assert bell.is_heard
            await asyncio.to_thread(bell.ring, {"north": [letter(1)]})
            assert await _heard(north, 10.0)
            assert north.in_order({}) == [b"r1 1"]
            assert not south.event.is_set()
            assert not south.letters
        bell.ring({"north": [letter(2)]})
        assert len(north.letters) == 1
        with bell.listening("north"):
            pass
        assert not bell._waiting

    asyncio.run(play())


def test_a_receipt_waits_for_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receipt alone wakes nobody at once, and is there when something else does."""

    async def play() -> None:
        monkeypatch.setattr(bell_module, "LINGER_SECONDS", 60.0)
        bell = Bell()
        bell.start()
        with bell.listening("north") as ear:
            bell.ring({"north": [letter(1, MessageType.RECEIPT)]})
            assert not await _heard(ear, 0.05)
            bell.ring({"north": [letter(2, MessageType.RELEASED)]})
            assert await _heard(ear, 10.0)
            assert ear.in_order({}) == [b"r1 1", b"r1 2"]
        monkeypatch.setattr(bell_module, "LINGER_SECONDS", 0.01)
        with bell.listening("north") as ear:
            bell.ring({"north": [letter(3, MessageType.RECEIPT)]})
            assert await _heard(ear, 10.0)

    asyncio.run(play())


def test_what_another_process_wrote_is_looked_for() -> None:
    """A look wakes those for whom there is more than was handed out here, and no one else."""

    async def play() -> None:
        bell = Bell()
        bell.start()
        bell.ring({"north": [letter(1)], "south": [letter(1)]})
        with bell.listening("north") as north, bell.listening("south") as south:
            bell.look({("north", "r1"): 1, ("south", "r1"): 2})
            assert await _heard(south, 10.0)
            assert not north.event.is_set()
            south.event.clear()
            bell.look({("north", "r1"): 1, ("south", "r1"): 2})
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            assert not south.event.is_set()

    asyncio.run(play())
