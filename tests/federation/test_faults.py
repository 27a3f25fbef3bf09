"""Faults between agents, service and storage in one process: every call, in both ways."""

from __future__ import annotations

import shutil
import sqlite3
from typing import TYPE_CHECKING

import httpx
import pytest
from driving import fetch, flush, step
from people import BLOCK_OWNERS, KINDS, PARTS, SCHEMA, block, part, people

from sherd.errors import ConnectionFailedError, PeerError, StorageError, UsageError
from sherd.federation.owner.agent import Agent
from sherd.federation.owner.owner_home import SETTINGS
from sherd.federation.protocol.joint_plan import Dropout, Kind
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.federation.wire import failpoints
from sherd.federation.wire.settings_file import write_settings

if TYPE_CHECKING:
    from consortium import Consortium


class Flaky(httpx.BaseTransport):
    """Loses the request, or the answer, of one call; doubles every call if told to."""

    def __init__(
        self, inner: httpx.BaseTransport, at: int | None = None, mode: str = "request"
    ) -> None:
        self.inner = inner
        self.at = at
        self.mode = mode
        self.calls = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """One request."""
        self.calls += 1
        if self.calls == self.at and self.mode == "request":
            raise httpx.ConnectError("lost on the way")
        answer = self.inner.handle_request(request)
        # A challenge is good once: what comes after its first use is refused, as it must be.
        if self.mode == "twice" and request.url.path != "/v1/session":
            answer = self.inner.handle_request(request)
        if self.calls == self.at:
            raise httpx.ReadTimeout("the answer was lost")
        return answer


def patient(agent: Agent) -> bool:
    """One step that survives a network that fails, as the running agent does."""
    try:
        return step(agent)
    except ConnectionFailedError:
        return True


def set_up(consortium: Consortium, kind: Kind) -> None:
    """Two owners of each kind, or four of blocks."""
    if kind is Kind.BLOCKS:
        for name in BLOCK_OWNERS:
            consortium.add_owner(name, *block(name, 12), key_column="id", kinds="[blocks]")
        return
    for number, name in enumerate(("north", "south")):
        if kind is Kind.VERTICAL:
            consortium.add_owner(name, part(name, 12), PARTS[name], key_column="id")
        else:
            table = people(12, seed=number, first=number * 100)
            consortium.add_owner(name, table, SCHEMA, key_column="id")


def spent(consortium: Consortium) -> dict[str, str]:
    """What each owner has spent."""
    return {
        name: str(agent.ledger.account(agent.home.settings.population).spent)
        for name, agent in consortium.agents.items()
    }


def charges(agent: Agent) -> list[str]:
    """The plans an owner was charged for."""
    return [
        entry.plan_hash
        for entry in agent.ledger.entries()
        if entry.kind == "charge" and "nothing released" not in entry.note
    ]


def check_released(consortium: Consortium, round_id: str = "r1") -> None:
    """The round is released, everybody was charged once, and delivered what was charged."""
    data = consortium.store.round(round_id)
    assert data is not None
    assert data.state is RoundState.RELEASED, (data.state, data.reason, data.details)
    for name, agent in consortium.agents.items():
        assert len(charges(agent)) == len(set(charges(agent)))
        charged = {entry.artefact for entry in agent.ledger.entries() if entry.artefact}
        assert data.deliveries[name].artefact in charged
        agent.ledger.verify()
        found = agent.journal.round(round_id)
        assert found is not None
        assert found.state is OwnerState.CLOSED


@pytest.mark.parametrize("mode", ["request", "answer"])
@pytest.mark.parametrize(
    "kind", [Kind.HORIZONTAL, pytest.param(Kind.VERTICAL, marks=pytest.mark.slow)]
)
def test_every_call_lost_once(consortium: Consortium, kind: Kind, mode: str) -> None:
    """Whichever call of an owner loses its request or its answer, the round is released once.

    One round for every call: the n-th round loses the n-th call of the owner north.
    """
    set_up(consortium, kind)
    lost = 0
    for number in range(1, 60):
        flaky = Flaky(consortium.transport, at=number, mode=mode)
        consortium.agents["north"].client.close()
        consortium.start("north", flaky)
        round_id = f"r{number}"
        consortium.aggregator.open_round(consortium.terms(round_id, kind=kind))
        consortium.settle(step=patient)
        check_released(consortium, round_id)
        assert len(charges(consortium.agents["north"])) == number
        lost += flaky.calls >= number
        if flaky.calls < number:
            break
    assert lost >= 6


def test_every_call_twice(consortium: Consortium) -> None:
    """Requests that arrive twice change nothing."""
    set_up(consortium, Kind.VERTICAL)
    for name in ("north", "south"):
        consortium.agents[name].client.close()
        consortium.start(name, Flaky(consortium.transport, mode="twice"))
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL))
    consortium.settle(step=patient)
    check_released(consortium)


@pytest.mark.parametrize("kind", [*KINDS, Kind.BLOCKS])
def test_restart_before_every_step(consortium: Consortium, kind: Kind) -> None:
    """Agents that are started again before every step lose nothing and spend once."""
    set_up(consortium, kind)
    consortium.aggregator.open_round(consortium.terms(kind=kind))

    def restarted(agent: Agent) -> bool:
        agent.client.close()
        return step(consortium.start(agent.name))

    consortium.settle(step=restarted)
    check_released(consortium)


class Killed(BaseException):
    """Stands for kill -9 inside one process: nothing catches it."""


OWNER_PLACES = [place for place in failpoints.PLACES if place.startswith("owner.")]


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        (kind, place)
        for kind in (*KINDS, Kind.BLOCKS)
        for place in OWNER_PLACES
        # Without linkage there is no bulk but the delivery.
        if kind is not Kind.HORIZONTAL or place != "owner.bulk"
    ],
)
def test_owner_dies_at_every_place(
    consortium: Consortium, kind: Kind, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that dies at a place, each time it comes there, still spends once."""
    set_up(consortium, kind)
    consortium.aggregator.open_round(consortium.terms(kind=kind))
    died = [0]

    def reach(name: str) -> None:
        # Every second time, so that it gets on.
        if name == place:
            died[0] += 1
            if died[0] % 2:
                raise Killed

    for module in ("agent", "outbox", "owner_linking", "owner_tasks", "sending"):
        monkeypatch.setattr(f"sherd.federation.owner.{module}.reach", reach)
    monkeypatch.setattr("sherd.federation.wire.fetching.reach", reach)

    def mortal(agent: Agent) -> bool:
        try:
            return step(agent)
        except Killed:
            agent.client.close()
            consortium.start(agent.name)
            return True

    consortium.settle(step=mortal, turns=120)
    assert died[0] >= 1
    check_released(consortium)


AGGREGATOR_PLACES = [place for place in failpoints.PLACES if place.startswith("aggregator.")]


@pytest.mark.parametrize("kind", [Kind.VERTICAL, Kind.BLOCKS])
@pytest.mark.parametrize("place", AGGREGATOR_PLACES)
def test_aggregator_dies_at_every_place(
    consortium: Consortium, kind: Kind, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that fails at a place each second time still makes one release."""
    set_up(consortium, kind)
    consortium.aggregator.open_round(consortium.terms(kind=kind))
    died = [0]

    def reach(name: str) -> None:
        if name == place:
            died[0] += 1
            if died[0] % 2:
                raise StorageError("died here")

    for module in ("round_work", "round_tasks"):
        monkeypatch.setattr(f"sherd.federation.aggregator.{module}.reach", reach)
    work = consortium.aggregator.work

    def again() -> list[str]:
        try:
            return work()
        except StorageError:
            return ["again"]

    monkeypatch.setattr(consortium.aggregator, "work", again)
    consortium.settle(step=patient, turns=120)
    assert died[0] >= 1
    check_released(consortium)
    assert [p.name for p in consortium.aggregator.releases.iterdir() if p.name[0] != "."] == ["r1"]


def test_disk_full_while_protecting(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk spends nothing; once there is room the round goes on."""
    set_up(consortium, Kind.HORIZONTAL)
    consortium.aggregator.open_round(consortium.terms())
    full = [True]
    from sherd.tables import write as writing

    write = writing.write

    def failing(*args: object, **options: object) -> None:
        if full[0]:
            raise StorageError("the table cannot be written", got="No space left on device")
        write(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr("sherd.tables.write.write", failing)
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.COLLECTING
    assert spent(consortium) == {"north": "0", "south": "0"}
    full[0] = False
    consortium.settle()
    check_released(consortium)


def test_full_disk_under_the_journal(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A journal that cannot be written says so; nothing was sent before it was written."""
    set_up(consortium, Kind.HORIZONTAL)
    consortium.aggregator.open_round(consortium.terms())
    agent = consortium.agents["north"]
    with agent.journal._open() as db:
        db.execute(f"PRAGMA max_page_count = {db.execute('PRAGMA page_count').fetchone()[0]}")

    def fill() -> None:
        for _ in range(40):
            step(agent)
            agent.journal.note("", "filler", "x" * 4000)

    with pytest.raises(StorageError, match="journal"):
        fill()
    consortium.start("north")
    consortium.settle()
    check_released(consortium)


@pytest.mark.parametrize("hours", [-1, 1])
def test_clock_an_hour_off(consortium: Consortium, hours: int) -> None:
    """Owners whose clocks are an hour off take part if the deadline is further away."""
    set_up(consortium, Kind.HORIZONTAL)
    consortium.offset = hours * 3600.0
    deadline = int(consortium.time) + 7200
    consortium.aggregator.open_round(consortium.terms(deadline=deadline))
    consortium.settle()
    check_released(consortium)


def test_clock_ahead_of_a_near_deadline(consortium: Consortium) -> None:
    """An owner that believes the deadline has passed gives up unspent; the round expires."""
    set_up(consortium, Kind.HORIZONTAL)
    consortium.offset = 3600.0
    deadline = int(consortium.time) + 600
    consortium.aggregator.open_round(consortium.terms(deadline=deadline))
    consortium.settle()
    assert spent(consortium) == {"north": "0", "south": "0"}
    consortium.time += 601
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.EXPIRED


def test_late_delivery(consortium: Consortium) -> None:
    """A delivery after the deadline is refused; the owner keeps what it paid for and stops."""
    set_up(consortium, Kind.HORIZONTAL)
    deadline = int(consortium.time) + 600
    consortium.aggregator.open_round(consortium.terms(deadline=deadline))
    for _ in range(2):
        for agent in consortium.agents.values():
            step(agent)
    north = consortium.agents["north"]
    fetch(north)
    north.work()  # protected and charged, not sent
    assert charges(north)
    consortium.time += 601
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.EXPIRED
    found = north.journal.round("r1")
    assert found is not None
    assert (found.state, found.reason) == (OwnerState.EXPIRED, Reason.LATE)
    assert len(charges(north)) == 1


def test_slow_owner_is_left_out_where_the_terms_say_so(consortium: Consortium) -> None:
    """With `continue`, a round whose deadline passes is made of those who delivered."""
    set_up(consortium, Kind.HORIZONTAL)
    terms = consortium.terms(dropout=Dropout.CONTINUE)
    consortium.aggregator.open_round(terms)
    for _ in range(2):
        for agent in consortium.agents.values():
            step(agent)
    south = consortium.agents.pop("south")
    consortium.settle()
    consortium.time += 3601
    consortium.settle()
    check_released(consortium)
    consortium.agents["south"] = south
    consortium.settle()
    found = south.journal.round("r1")
    assert found is not None
    assert found.state is OwnerState.EXPIRED
    data = consortium.store.round("r1")
    assert data is not None
    assert data.dropped == {"south": Reason.LATE}


def copied(consortium: Consortium, name: str) -> Agent:
    """A second agent in a copy of an owner's folder, with the same key."""
    home = consortium.homes[name]
    twin = home.folder.with_name(f"{name}-twin")
    shutil.copytree(home.folder, twin)
    from sherd.federation.owner.owner_home import OwnerHome

    return Agent(OwnerHome(twin), consortium.client(name), clock=lambda: consortium.time)


def test_two_agents_with_one_key(consortium: Consortium) -> None:
    """Of two agents with one key, one delivers; the other's artefact never leaves it."""
    set_up(consortium, Kind.HORIZONTAL)
    twin = copied(consortium, "north")
    consortium.aggregator.open_round(consortium.terms())
    agents = [*consortium.agents.values(), twin]
    for _ in range(3):
        for agent in agents:
            fetch(agent)
            agent.work()
        for agent in agents:
            flush(agent)
        consortium.aggregator.work()
    for _ in range(6):
        for agent in agents:
            step(agent)
        consortium.aggregator.work()
    check_released(consortium)
    found = twin.journal.round("r1")
    assert found is not None
    assert found.state is not OwnerState.CLOSED or found.artefact is None
    audit = [event for _, _, event, _ in twin.journal.audit()]
    assert "the aggregator refused a message" in audit
    twin.client.close()
    twin.journal.close()


def test_two_agents_in_one_folder(consortium: Consortium) -> None:
    """A second agent in the same folder does not start."""
    set_up(consortium, Kind.HORIZONTAL)
    home = consortium.homes["north"]
    with home.locked(), pytest.raises(UsageError, match="another agent"), home.locked():
        pass


def test_restored_old_ledger_is_noticed(consortium: Consortium) -> None:
    """A ledger from before the last delivery is refused by the owner itself."""
    set_up(consortium, Kind.HORIZONTAL)
    north = consortium.agents["north"]
    backup = north.home.folder / "backup.db"
    with sqlite3.connect(north.home.ledger) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    source.close()
    target.close()
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    check_released(consortium)
    for suffix in ("", "-wal", "-shm"):
        north.home.ledger.with_name(f"ledger.db{suffix}").unlink(missing_ok=True)
    backup.rename(north.home.ledger)
    north.client.close()
    consortium.start("north")
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    data = consortium.store.round("r2")
    assert data is not None
    assert data.state is RoundState.ABORTED
    found = consortium.agents["north"].journal.round("r2")
    assert found is not None
    assert (found.state, found.reason) == (OwnerState.REFUSED, Reason.ROLLED_BACK)


def test_witness_notices_a_ledger_the_aggregator_cannot(consortium: Consortium) -> None:
    """A ledger that is older than its witness is refused even if nobody else remembers."""
    import dataclasses

    set_up(consortium, Kind.HORIZONTAL)
    north = consortium.homes["north"]
    place = consortium.folder / "elsewhere"
    write_settings(north.folder / SETTINGS, dataclasses.replace(north.settings, witness=str(place)))
    consortium.start("north")
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    check_released(consortium)
    assert consortium.agents["north"].ledger.holds(place.read_text(encoding="ascii").strip())
    place.write_text("ab" * 32, encoding="ascii")
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    found = consortium.agents["north"].journal.round("r2")
    assert found is not None
    assert (found.state, found.reason) == (OwnerState.REFUSED, Reason.ROLLED_BACK)


def test_lost_outbox_is_not_made_again(consortium: Consortium) -> None:
    """An artefact that was paid for and is gone is said to be gone, not protected again."""
    set_up(consortium, Kind.HORIZONTAL)
    consortium.aggregator.open_round(consortium.terms())
    for _ in range(2):
        for agent in consortium.agents.values():
            step(agent)
    north = consortium.agents["north"]
    fetch(north)
    data = north.journal.round("r1")
    assert data is not None
    north.work()
    (artefact,) = north.home.outbox.iterdir()
    shutil.rmtree(artefact)
    north.journal.store(data)  # as if the journal had been lost, too
    with north.journal._writing() as db:
        db.execute("DELETE FROM outgoing WHERE sequence = 3")
    assert north.work() is False
    assert len(charges(north)) == 1
    assert "could not protect" in [event for _, _, event, _ in north.journal.audit()]


def test_two_rounds_race_for_the_last_epsilon(consortium: Consortium) -> None:
    """With budget for one of two rounds, one is released and the other refused."""
    for number, name in enumerate(("north", "south")):
        table = people(12, seed=number, first=number * 100)
        consortium.add_owner(name, table, SCHEMA, lifetime="1.5")
    for round_id in ("r1", "r2"):
        consortium.aggregator.open_round(consortium.terms(round_id))
    consortium.settle()
    states = []
    for round_id in ("r1", "r2"):
        data = consortium.store.round(round_id)
        assert data is not None
        states.append(data.state)
    assert sorted(states) == [RoundState.ABORTED, RoundState.RELEASED]
    assert set(spent(consortium).values()) == {"1"}


def test_aggregator_refuses_another_artefact(consortium: Consortium) -> None:
    """Once a delivery is announced, other chunks and another delivery are refused."""
    set_up(consortium, Kind.HORIZONTAL)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle(turns=2)
    agent = consortium.agents["north"]
    with pytest.raises(PeerError) as caught:
        agent.client.put_chunk("r1", "0" * 64, b"")
    assert caught.value.reason is Reason.MALFORMED
    import hashlib

    with pytest.raises(PeerError) as caught:
        agent.client.put_chunk("r1", hashlib.sha256(b"x").hexdigest(), b"x")
    assert caught.value.reason is Reason.UNKNOWN_CHUNK
