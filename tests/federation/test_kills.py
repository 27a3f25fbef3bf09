"""Kill -9 at every fail point of owner and aggregator, in real processes."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from people import KINDS
from processes import Village, add_owners, make_database, quick_folder, wait_until
from spawning import Conditions

import sherd.federation
from sherd.federation.protocol.joint_plan import Kind
from sherd.federation.wire import failpoints

if TYPE_CHECKING:
    from collections.abc import Iterator

LINKED = {"owner.bulk", "aggregator.linking", "aggregator.linked"}
"""Places that only rounds with linkage come to."""

CASES = [
    (kind, place)
    for kind in KINDS
    for place in failpoints.PLACES
    if kind is Kind.VERTICAL or place not in LINKED
]
QUICK_BLOCKS = ("owner.charged", "aggregator.linked", "aggregator.published")
"""Where somebody dies in rounds of blocks in every run; elsewhere in long ones."""


def test_every_place_has_a_case() -> None:
    """The places that the code comes to, the list of them and the cases are the same."""
    folder = Path(sherd.federation.__file__).parent
    reached = {
        place
        for path in folder.rglob("*.py")
        for place in re.findall(r"\breach\(\"([a-z.]+)\"\)", path.read_text(encoding="utf-8"))
    }
    assert len(failpoints.PLACES) == len(set(failpoints.PLACES)) == 18
    assert reached == set(failpoints.PLACES) == {place for _, place in CASES}
    assert {place for kind, place in CASES if kind is Kind.HORIZONTAL} | LINKED == reached


class Villages:
    """Villages that live through all cases of their kind, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[Kind, str | None], Village] = {}
        self._rounds = 0

    def get(self, kind: Kind, database: str | None = None) -> Village:
        """A village with two owners, or four of blocks."""
        if (kind, database) not in self._made:
            folder = self._folder / f"village-{len(self._made)}"
            folder.mkdir()
            address = None if database is None else make_database(database, f"kills_{kind.value}")
            self._made[kind, database] = Village(folder, address)
            add_owners(self._made[kind, database], kind)
        return self._made[kind, database]

    def name_round(self) -> str:
        """A name no round has had."""
        self._rounds += 1
        return f"r{self._rounds}"

    def close(self) -> None:
        """End everything."""
        for village in self._made.values():
            village.close()


@pytest.fixture(scope="module")
def villages() -> Iterator[Villages]:
    """No villages yet."""
    with quick_folder() as folder:
        made = Villages(folder)
        yield made
        made.close()


def kill_at(villages: Villages, village: Village, kind: Kind, place: str) -> None:
    """Run a round in which somebody dies at a place and is started again."""
    victim = "aggregator" if place.startswith("aggregator") else "north"
    for who in ("aggregator", *village.homes):
        if who != victim and who not in village.running:
            village.start(who)
    process = village.start(victim, Conditions(failpoint=place))
    name, charged = villages.name_round(), len(village.charges("north"))
    village.open_round(name, kind=kind)
    wait_until(lambda: process.poll() is not None, f"{victim} dies at {place}", 60.0)
    assert process.returncode == -signal.SIGKILL
    village.start(victim)
    village.check_released(name)
    assert len(village.charges("north")) == charged + 1


@pytest.mark.parametrize(("kind", "place"), CASES)
def test_kill_at_every_place(villages: Villages, kind: Kind, place: str) -> None:
    """A process killed at a place is started again; nothing is lost or spent twice."""
    kill_at(villages, villages.get(kind), kind, place)


@pytest.mark.parametrize(
    "place",
    [
        pytest.param(place, marks=() if place in QUICK_BLOCKS else pytest.mark.slow)
        for place in failpoints.PLACES
    ],
)
def test_kill_at_every_place_of_blocks(villages: Villages, place: str) -> None:
    """The same where rows and columns are parted at once, between four owners."""
    kill_at(villages, villages.get(Kind.BLOCKS), Kind.BLOCKS, place)


@pytest.mark.parametrize(
    ("kind", "place"),
    [
        pytest.param(kind, place, marks=pytest.mark.slow if kind is Kind.VERTICAL else ())
        for kind, place in CASES
        if place.startswith("aggregator")
    ],
)
def test_kill_the_aggregator_on_postgresql(
    villages: Villages, postgresql: str, kind: Kind, place: str
) -> None:
    """The same for an aggregator whose rounds are in PostgreSQL."""
    kill_at(villages, villages.get(kind, postgresql), kind, place)
