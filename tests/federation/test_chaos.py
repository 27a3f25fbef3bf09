"""Chaos: random faults in every round, and afterwards nothing is spent twice, lost or left hanging.

Faults: requests and answers lost, doubled, delayed or answered by somebody else; owners and the
aggregator killed at random places; clocks that jump; an owner's folder restored from a backup
and led back. `make chaos` runs it for as long as SHERD_CHAOS_SECONDS says and prints the counts;
in the ordinary tests it runs for a few seconds.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from driving import step
from people import PARTS, SCHEMA, part, people

from sherd.budget.ledger import Ledger
from sherd.errors import ConnectionFailedError, PeerError
from sherd.federation.aggregator import round_tasks, round_work
from sherd.federation.owner import agent as agent_module
from sherd.federation.owner import outbox, owner_linking, owner_tasks
from sherd.federation.owner.owner_backup import back_up_owner, restore_owner
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.owner.recovery import recover
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.states import OWNER_ENDS, ROUND_ENDS, RoundState

if TYPE_CHECKING:
    from pathlib import Path

    from consortium import Consortium

    from sherd.federation.owner.agent import Agent

SECONDS = float(os.environ.get("SHERD_CHAOS_SECONDS", "12"))
SEED = int(os.environ.get("SHERD_CHAOS_SEED", "1"))
NAMES = ("north", "south")


class Killed(BaseException):
    """Stands for kill -9 inside one process: nothing catches it."""


class Chaos:
    """The dice, and how often each fault was thrown."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)  # noqa: S311 - dice, no secrets
        self.faults: Counter[str] = Counter()
        self.quiet = False

    def strikes(self, fault: str, chance: float) -> bool:
        """Whether a fault happens now."""
        if self.quiet or self.dice.random() >= chance:
            return False
        self.faults[fault] += 1
        return True

    def reach(self, place: str) -> None:
        """A place at which a process may die."""
        if self.strikes(f"death at {place}", 0.04):
            raise Killed


class Storm(httpx.BaseTransport):
    """A network on which everything goes wrong now and then."""

    def __init__(self, inner: httpx.BaseTransport, chaos: Chaos) -> None:
        self.inner, self.chaos = inner, chaos

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        if self.chaos.strikes("request lost", 0.05):
            raise httpx.ConnectError("lost")
        if self.chaos.strikes("answer of a proxy", 0.03):
            return httpx.Response(self.chaos.dice.choice([302, 429, 502]), content=b"<html>")
        if self.chaos.strikes("request doubled", 0.05) and request.url.path != "/v1/session":
            self.inner.handle_request(request)
        answer = self.inner.handle_request(request)
        if self.chaos.strikes("answer lost", 0.05):
            raise httpx.ReadTimeout("lost")
        if self.chaos.strikes("answer garbled", 0.02):
            return httpx.Response(200, content=answer.content[:-1] + b"\xff")
        return answer


def set_up(consortium: Consortium, kind: Kind, chaos: Chaos) -> None:
    """Two owners behind a storm."""
    for number, name in enumerate(NAMES):
        if kind is Kind.VERTICAL:
            consortium.add_owner(name, part(name, 12), PARTS[name], key_column="id", lifetime="1e6")
        else:
            table = people(12, seed=number, first=number * 100)
            consortium.add_owner(name, table, SCHEMA, key_column="id", lifetime="1e6")
        start(consortium, name, chaos)


def start(consortium: Consortium, name: str, chaos: Chaos) -> Agent:
    """Start an owner's agent once more."""
    consortium.agents[name].client.close()
    while True:
        try:
            return consortium.start(name, Storm(consortium.transport, chaos))
        except Killed:
            continue


def turn(consortium: Consortium, name: str, chaos: Chaos) -> None:
    """One turn of an owner, whatever befalls it."""
    if chaos.strikes("clock skew", 0.02):
        consortium.offset = chaos.dice.uniform(-600, 600)
    try:
        step(consortium.agents[name])
    except (ConnectionFailedError, PeerError):
        pass
    except Killed:
        start(consortium, name, chaos)
    if chaos.strikes("restart", 0.03):
        start(consortium, name, chaos)


def restore(consortium: Consortium, backup: Path, chaos: Chaos) -> None:
    """Put north's folder back as it was before the round, and lead it back."""
    chaos.faults["backup restored"] += 1
    home = consortium.homes["north"]
    consortium.agents["north"].journal.close()
    kept = consortium.folder / "kept"  # its table and schema are elsewhere in life
    home.folder.rename(kept)
    restored = restore_owner(backup, home.folder)
    for name in ("table.parquet", "schema.yaml"):
        shutil.copy(kept / name, home.folder / name)
    shutil.rmtree(kept)
    journal = OwnerJournal(restored.journal)
    recover(restored, consortium.client("north"), Ledger(restored.ledger), journal)
    journal.close()
    start(consortium, "north", chaos)


def check(consortium: Consortium, rounds: int, *, restored: set[int]) -> None:
    """Nothing hangs, nothing was charged twice, everything delivered was paid for."""
    for agent in consortium.agents.values():
        agent.ledger.verify()
        charged = [entry for entry in agent.ledger.entries() if entry.kind == "charge"]
        assert len({entry.plan_hash for entry in charged}) == len(charged), "charged twice"
        paid = {entry.artefact for entry in charged}
        for number in range(rounds):
            data = consortium.store.round(f"r{number}")
            assert data is not None
            assert data.state in ROUND_ENDS, (number, data.state)
            if agent.name in data.deliveries:
                assert data.deliveries[agent.name].artefact in paid, "delivered and not paid for"
            own = agent.journal.round(f"r{number}")
            assert own is None or own.state in OWNER_ENDS, (number, agent.name, own.state)
            if number not in restored:
                notes = [entry for entry in charged if entry.note == f"round r{number}"]
                assert len(notes) <= 1, "a round charged twice"


@pytest.mark.timeout(60 + 4 * SECONDS)  # a run of an hour is no hang
@pytest.mark.parametrize("kind", list(Kind))
def test_chaos(consortium: Consortium, monkeypatch: pytest.MonkeyPatch, kind: Kind) -> None:
    """Rounds under faults end, are paid for once, and most are released."""
    chaos = Chaos(SEED)
    modules: list[Any] = [
        agent_module, outbox, owner_linking, owner_tasks, round_tasks, round_work,
    ]  # fmt: skip
    for module in modules:
        monkeypatch.setattr(module, "reach", chaos.reach)
    chaos.quiet = True
    set_up(consortium, kind, chaos)
    until, rounds, restored = time.monotonic() + SECONDS / 2, 0, set[int]()
    while time.monotonic() < until or rounds < 2:
        one_round(consortium, chaos, kind, rounds, restored)
        rounds += 1
    check(consortium, rounds, restored=restored)
    ends = [consortium.store.round(f"r{number}") for number in range(rounds)]
    states = Counter(data.state for data in ends if data is not None)
    count = sum(chaos.faults.values())
    told = f"{kind.value}: {rounds} rounds, {count} faults, {dict(states)}, {dict(chaos.faults)}"
    print(told)  # noqa: T201 - the record of a run
    assert states[RoundState.RELEASED] >= rounds // 2 or rounds < 4
    assert sum(chaos.faults.values()) >= rounds


def one_round(
    consortium: Consortium, chaos: Chaos, kind: Kind, number: int, restored: set[int]
) -> None:
    """A round in the storm; then the sea is calm until everybody has heard of its end."""
    lost, backup = chaos.dice.random() < 0.1, consortium.folder / "backup.tar"
    if lost:
        backup.unlink(missing_ok=True)
        back_up_owner(consortium.homes["north"], backup)
    chaos.quiet = True
    consortium.aggregator.open_round(consortium.terms(f"r{number}", kind=kind))
    chaos.quiet = False
    for turns in range(60):
        for name in NAMES:
            turn(consortium, name, chaos)
        try:
            consortium.aggregator.work()
        except Killed:
            chaos.faults["aggregator restarted"] += 1
        data = consortium.store.round(f"r{number}")
        if data is not None and data.state in ROUND_ENDS:
            break
        if lost and turns == 8:
            chaos.quiet = True
            restored.add(number)
            restore(consortium, backup, chaos)
            chaos.quiet = False
    chaos.quiet = True
    consortium.offset = 0.0
    consortium.settle()
    consortium.time += 3 * 3600  # what is left ends at its deadline
    consortium.aggregator.work()
    consortium.settle()
