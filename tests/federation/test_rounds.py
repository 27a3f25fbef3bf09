"""Whole rounds through real agents, real storage and the real service."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from driving import fetch, flush
from people import PARTS, SCHEMA, part, people

from sherd.federation.owner.owner_home import SETTINGS
from sherd.federation.owner.release_taking import take_releases
from sherd.federation.protocol.joint_plan import Kind, Linkage
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.federation.wire.settings_file import write_settings
from sherd.release.bundle import Release

if TYPE_CHECKING:
    from consortium import Consortium


def add_horizontal(consortium: Consortium, *sizes: int, **policy: str) -> None:
    """Owners of the same attributes and different people."""
    for number, (name, size) in enumerate(zip(("north", "south", "west"), sizes, strict=False)):
        table = people(size, seed=number, first=number * 10_000)
        consortium.add_owner(name, table, SCHEMA, key_column="id", **policy)


def add_vertical(consortium: Consortium, count: int = 60) -> None:
    """Owners of different attributes; each lacks some of the people."""
    for number, name in enumerate(("north", "south", "west")):
        table = part(name, count)
        keep = [i for i in range(count) if i % 10 != number]
        order = keep[::-1] if number else keep
        consortium.add_owner(name, table.take(order), PARTS[name], key_column="id")


def test_horizontal_round(consortium: Consortium) -> None:
    """Three owners' rows are united; each is charged once; the manifest says how."""
    add_horizontal(consortium, 50, 40, 30)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    assert consortium.ended()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    release = Release.load(consortium.aggregator.folder("r1"))
    table = release.tables["data"]
    assert table.num_rows == 120
    assert table.column_names == ["age", "income", "colour"]
    joint = release.manifest["joint"]
    assert joint["disjointness"].startswith("assumed")
    assert set(joint["owners"]) == {"north", "south", "west"}
    assert "was not tested" in release.manifest["guarantee"]["words"]
    assert release.manifest["joint"]["epsilon_of_a_person_at_every_owner"] == "3"
    for agent in consortium.agents.values():
        assert str(agent.ledger.account(agent.home.settings.population).spent) == "1"
        found = agent.journal.round("r1")
        assert found is not None
        assert found.state is OwnerState.CLOSED
        # Step 8: every owner has the release, the same files.
        own = Release.load(agent.home.releases / "r1")
        assert own.manifest == release.manifest
        assert own.tables["data"].equals(table)


def test_release_that_is_not_what_was_announced(consortium: Consortium) -> None:
    """An owner that fetches a changed release throws it away and notes it."""
    add_horizontal(consortium, 20)
    consortium.aggregator.open_round(consortium.terms())
    agent = consortium.agents["north"]
    for _ in range(6):
        agent.work()
        flush(agent)
        fetch(agent)
        consortium.aggregator.work()
    data = agent.journal.round("r1")
    assert data is not None
    assert data.state is OwnerState.CLOSED
    folder = consortium.aggregator.folder("r1")
    (folder / "data.parquet").write_bytes(b"short")
    take_releases(agent)
    assert not (agent.home.releases / "r1").exists()
    (folder / "manifest.json").write_text("{}")
    agent.released.add("r1")
    take_releases(agent)
    (folder / "manifest.json").unlink()
    agent.released.add("r1")
    take_releases(agent)
    events = [event for _, _, event, _ in agent.journal.audit()]
    assert events.count("could not fetch the release") == 3
    assert not (agent.home.releases / "r1").exists()


def test_owner_that_keeps_manifests_alone(consortium: Consortium) -> None:
    """An owner may fetch what proves the release without its data."""
    add_horizontal(consortium, 20, 20)
    home = consortium.homes["north"]
    write_settings(home.folder / SETTINGS, dataclasses.replace(home.settings, keeps="manifest"))
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    kept = {path.name for path in (home.releases / "r1").iterdir()}
    assert {"manifest.json", "signature.json"} <= kept
    data = {"data.parquet", "datapackage.json"}
    assert not kept & data
    assert data < {path.name for path in (consortium.homes["south"].releases / "r1").iterdir()}


@pytest.mark.parametrize("linkage", [Linkage.OPRF, Linkage.HMAC])
def test_vertical_round(consortium: Consortium, linkage: Linkage) -> None:
    """Three owners' columns are joined for the people all of them have, without identifiers."""
    add_vertical(consortium)
    for home in consortium.homes.values():
        (home.folder / "linkage.key").write_bytes(b"k" * 32)
    consortium.aggregator.open_round(consortium.terms(kind=Kind.VERTICAL, linkage=linkage))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    table = Release.load(consortium.aggregator.folder("r1")).tables["data"]
    assert table.column_names == ["age", "income", "colour", "height"]
    assert table.num_rows == 42 == data.common_count
    spent = {
        name: str(agent.ledger.account(agent.home.settings.population).spent)
        for name, agent in consortium.agents.items()
    }
    assert spent == {"north": "0.5", "south": "0.25", "west": "0.25"}
    for home in consortium.homes.values():
        assert not list(home.bulk.iterdir()), "who had which pseudonym is forgotten"
    for name in table.column_names:
        assert min(Counter(table.column(name).to_pylist()).values()) >= 3
