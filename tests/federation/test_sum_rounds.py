"""Rounds of sums: dp-graph over rows of several owners, through real agents and storage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from people import SCHEMA, people

import sherd
from sherd.federation.protocol.states import OwnerState, RoundState
from sherd.release.bundle import Release

if TYPE_CHECKING:
    from consortium import Consortium

PARAMETERS = {"delta": 1e-6, "choice": "all"}


def add_owners(consortium: Consortium, *sizes: int) -> None:
    """Owners of the same attributes and different people."""
    for number, (name, size) in enumerate(zip(("north", "south", "west"), sizes, strict=False)):
        table = people(size, seed=number, first=number * 10_000)
        consortium.add_owner(name, table, SCHEMA, key_column="id")


def open_round(consortium: Consortium, round_id: str = "r1", **changes: Any) -> None:
    """Invite everybody to a round of sums."""
    base: dict[str, Any] = {"method": "dp-graph", "parameters": PARAMETERS, "epsilon": "5"}
    consortium.aggregator.open_round(consortium.terms(round_id, **{**base, **changes}))


def test_round_of_sums(consortium: Consortium) -> None:
    """Three owners' rows lead to one verified release; each is charged once, in ε and in ρ."""
    add_owners(consortium, 400, 300, 200)
    open_round(consortium)
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    assert consortium.ended()
    folder = consortium.aggregator.folder("r1")
    release = Release.load(folder)
    assert release.tables["data"].num_rows == 900
    assert release.manifest["joint"]["noise"]["colluders"] == 2
    found = sherd.verify(folder)
    assert found.passed, [check for check in found.checks if check.passed is False]
    for agent in consortium.agents.values():
        account = agent.ledger.account(agent.home.settings.population)
        assert str(account.spent) == "5"
        assert [entry.amount for entry in agent.ledger.entries()].count(account.spent) == 1
        kept = agent.journal.round("r1")
        assert kept is not None
        assert kept.state is OwnerState.CLOSED
        assert not list(agent.home.bulk.iterdir()), "answers are thrown away at the end"
