"""Rounds of sums in real processes with mutual TLS: Adult at three owners, and kills."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from people import SCHEMA, people
from processes import Village, quick_folder, wait_until
from spawning import Conditions

import sherd
from sherd.federation.protocol.states import RoundState

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

METHODS: Any = ["dp-graph"]
PLAN = {"delta": 1e-6, "choice": "all"}


def check_released(village: Village, name: str, epsilon: str) -> Path:
    """The release verifies, every owner has it, and was charged once for it."""
    data = village.wait(name, 240.0)
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    folder = village.premises.releases / name
    assert not [check for check in sherd.verify(folder).checks if check.passed is False]
    for owner, home in village.homes.items():
        ledger = sherd.Ledger(home.ledger)
        ledger.verify()
        charges = [entry for entry in ledger.entries() if entry.kind == "charge"]
        # Told apart to the end of the name: another round's may begin with it.
        mine = [entry for entry in charges if f"{entry.note},".startswith(f"round {name},")]
        assert [str(entry.amount) for entry in mine] == [epsilon, "0"]
        wait_until(
            lambda owner=owner: village.has_release(owner, data),  # type: ignore[misc]
            f"{owner} has the release",
        )
    return folder


def test_adult_of_three_owners(village: Village) -> None:
    """Adult's rows at three owners lead to records that keep how attributes go together."""
    table = sherd.datasets.load("adult", complete=True)
    schema = sherd.datasets.schema("adult").as_data()
    names = ["age", "education", "occupation", "sex", "income"]
    kept = {name: schema["attributes"][name] for name in names}
    text = json.dumps({"missing": "refuse", "attributes": kept})
    order = np.random.default_rng(3).permutation(table.num_rows)
    for owner, some in zip(("north", "south", "west"), np.array_split(order, 3), strict=True):
        part = table.select(names).take(pa.array(some))
        village.add_owner(owner, part, text, methods=METHODS)
    village.start_all()
    parameters = {"delta": 1e-9, "choice": "all", "class_attribute": "income"}
    village.open_round("r1", method="dp-graph", parameters=parameters, epsilon="1")
    folder = check_released(village, "r1", "1")
    released = sherd.Release.load(folder).tables["data"]
    assert released.num_rows == table.num_rows

    def share(of: Any, education: str) -> float:
        rows = of.select(["education", "income"]).to_pylist()
        incomes = [one["income"] for one in rows if one["education"] == education]
        return incomes.count(">50K") / len(incomes)

    for education in ("Bachelors", "HS-grad"):
        assert abs(share(released, education) - share(table, education)) < 0.05


@pytest.fixture(scope="module")
def pair() -> Iterator[Village]:
    """Two owners that live through all kills."""
    with quick_folder() as folder:
        village = Village(folder)
        for number, name in enumerate(("north", "south")):
            table = people(200, seed=number, first=number * 1000)
            village.add_owner(name, table, SCHEMA, methods=METHODS)
        yield village
        village.close()


QUICK = ["owner.charged", "owner.outbox:2", "aggregator.linked:2"]
PLACES = [
    "owner.protecting", "owner.staged", "owner.bulk", "owner.outbox", "owner.sent:4",
    "owner.charged:2", "owner.staged:2", "aggregator.linking", "aggregator.linked",
    "aggregator.linking:3", "aggregator.staged", "aggregator.published", "aggregator.released",
]  # fmt: skip


@pytest.mark.parametrize(
    "place", [*QUICK, *(pytest.param(one, marks=pytest.mark.slow) for one in PLACES)]
)
def test_kill_at_every_step(pair: Village, place: str) -> None:
    """Whoever dies at a step and is started again: one release, one charge at each owner."""
    victim = "aggregator" if place.startswith("aggregator") else "north"
    for who in ("aggregator", *pair.homes):
        if who != victim and who not in pair.running:
            pair.start(who)
    process = pair.start(victim, Conditions(failpoint=place))
    name = "r" + place.replace(".", "-").replace(":", "-")
    pair.open_round(name, method="dp-graph", parameters=PLAN, epsilon="1")
    wait_until(lambda: process.poll() is not None, f"{victim} dies at {place}", 60.0)
    assert process.returncode == -signal.SIGKILL
    pair.start(victim)
    check_released(pair, name, "1")
