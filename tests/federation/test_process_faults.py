"""Other faults between real processes: lost calls, clocks, two agents, old ledgers, any time."""

from __future__ import annotations

import random
import shutil
import sqlite3
import time
from typing import TYPE_CHECKING

import pytest
from lossy import Fault, LossyProxy
from people import KINDS
from processes import Village, add_owners, free_port, wait_until
from spawning import Conditions, spawn

from sherd.budget.ledger import Ledger
from sherd.federation.owner.owner_home import OwnerHome
from sherd.federation.owner.owner_journal import OwnerJournal
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OWNER_ENDS, OwnerState, RoundState

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3600.0


@pytest.mark.parametrize("fault", list(Fault))
@pytest.mark.parametrize(
    "kind", [Kind.HORIZONTAL, pytest.param(Kind.VERTICAL, marks=pytest.mark.slow)]
)
def test_every_call_meets_the_fault(quick_path: Path, kind: Kind, fault: Fault) -> None:
    """Every different call of both owners is lost, doubled or copied late once."""
    port = free_port()
    proxy = LossyProxy(port, fault)
    village = Village(quick_path, port=port, url=proxy.url)
    try:
        add_owners(village, kind)
        village.start_all()
        village.open_round(kind=kind)
        village.check_released()
        for name in village.homes:
            assert len(village.charges(name)) == 1
            found = village.owner_round(name)
            assert found is not None
            assert found.state is OwnerState.CLOSED
        last = "/v1/rounds/*/countersignature"
        wait_until(lambda: last in proxy.paths, "an owner countersigns what it fetched")
    finally:
        village.close()
        proxy.close()
    assert proxy.faults >= 12
    fetched = {"/v1/rounds/*/chunks/*"} if kind is Kind.VERTICAL else set()
    assert proxy.paths == {
        "/v1/challenge", "/v1/session", "/v1/exchange", "/v1/rounds/*/release/*", last, *fetched,
    }  # fmt: skip


def test_clocks_an_hour_off(village: Village) -> None:
    """Owners whose clocks are an hour ahead and behind take part in a round of two hours."""
    add_owners(village, Kind.HORIZONTAL)
    village.start_all(north=Conditions(clock_off=HOUR), south=Conditions(clock_off=-HOUR))
    village.open_round(deadline=int(time.time() + 2 * HOUR))
    village.check_released()
    # One that believes a near deadline has passed gives up, and nobody spends anything.
    village.open_round("r2", deadline=int(time.time() + 600))
    wait_until(lambda: village.owner_ended("north", "r2"), "north gives up")
    found = village.owner_round("north", "r2")
    assert found is not None
    assert found.state is OwnerState.EXPIRED
    assert [len(village.charges(name)) for name in village.homes] == [1, 1]


def test_two_agents_with_one_key(village: Village) -> None:
    """Two agents in copies of one folder make the same bytes: there is one artefact."""
    add_owners(village, Kind.HORIZONTAL)
    twin = OwnerHome(village.folder / "twin")
    shutil.copytree(village.homes["north"].folder, twin.folder)
    village.start_all()
    log = village.folder / "twin.log"
    village.running["twin"] = spawn(["owner", "run", "--home", str(twin.folder)], log)
    wait_until(lambda: "calls" in log.read_text(), "the twin runs")
    village.open_round()
    data = village.wait()
    assert data.state is RoundState.RELEASED

    def known() -> bool:
        journal = OwnerJournal(twin.journal)
        found = journal.round("r1")
        journal.close()
        return found is not None and found.state in OWNER_ENDS

    wait_until(known, "the twin has noticed")
    charged = [
        entry.artefact
        for home in (village.homes["north"], twin)
        for entry in Ledger(home.ledger).entries()
        if entry.kind == "charge" and "nothing released" not in entry.note
    ]
    assert set(charged) == {data.deliveries["north"].artefact}
    assert len(charged) <= 2, "neither was charged twice"
    assert [path.name for path in village.premises.releases.iterdir()] == ["r1"]


def test_two_agents_in_one_folder(village: Village) -> None:
    """A second agent in the same folder ends at once and says why."""
    add_owners(village, Kind.HORIZONTAL)
    village.start_all()
    wait_until(lambda: "calls" in village.logs[1].read_text(), "the first agent runs")
    log = village.folder / "second.log"
    second = spawn(["owner", "run", "--home", str(village.homes["north"].folder)], log)
    assert second.wait(60) == 2
    assert "another agent works in this folder" in log.read_text()


def test_restored_old_ledger(village: Village) -> None:
    """An agent with a ledger from before its last delivery refuses and spends nothing."""
    add_owners(village, Kind.HORIZONTAL)
    home = village.homes["north"]
    Ledger(home.ledger)
    backup = village.folder / "backup.db"
    source, target = sqlite3.connect(home.ledger), sqlite3.connect(backup)
    source.backup(target)
    source.close()
    target.close()
    village.start_all()
    village.open_round()
    village.check_released()
    village.kill("north")
    for suffix in ("", "-wal", "-shm"):
        home.ledger.with_name(f"{home.ledger.name}{suffix}").unlink(missing_ok=True)
    shutil.copy(backup, home.ledger)
    village.start("north")
    village.open_round("r2")
    assert village.wait("r2").state is RoundState.ABORTED
    found = village.owner_round("north", "r2")
    assert found is not None
    assert (found.state, found.reason) == (OwnerState.REFUSED, Reason.ROLLED_BACK)
    assert village.charges("north") == []
    assert len(village.charges("south")) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_killed_at_any_moment(village: Village, kind: Kind) -> None:
    """Whoever is killed, whenever: every round is released, and charged once."""
    add_owners(village, kind)
    village.start_all()
    chance = random.Random()  # noqa: S311 - any moments will do
    for number in range(5):
        name = f"r{number}"
        village.open_round(name, kind=kind)
        for _ in range(4):
            time.sleep(chance.uniform(0.0, 0.6))
            village.start(chance.choice(list(village.running)))
        village.check_released(name)
        assert [len(village.charges(each)) for each in village.homes] == [number + 1] * 2
