"""Rows and columns at once: owners of blocks share attributes with some and people with others."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from people import BLOCK_OWNERS, PARTS, numbered, terms_of
from processes import add_owners

import sherd
from sherd.auditing.case.open_case import owners_of
from sherd.errors import PlanError
from sherd.federation.protocol.agreement import (
    at_two_owners,
    column_groups,
    common_people,
    disagreements,
)
from sherd.federation.protocol.composition import composed, make_plan, unsound
from sherd.federation.protocol.joint_plan import Dropout, Kind, Linkage, Offer, Sharing
from sherd.federation.protocol.linkage import listed
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState
from sherd.release.bundle import Release

if TYPE_CHECKING:
    from consortium import Consortium
    from processes import Village

    from sherd.federation.protocol.joint_plan import Terms

BLOCKS = {"kind": Kind.BLOCKS, "linkage": Linkage.OPRF}


def _two_by_two(consortium: Consortium, twice: int = 0) -> None:
    """Two owners of one half of the attributes, of the first 60 people and the rest, and so on.

    The owners of the other half part the people otherwise, and nobody has them all; ``twice`` is
    how many people both owners of the first half have.
    """
    first = "age", "income"
    kept = [number for number in range(120) if number % 10]
    rng = np.random.default_rng(1)
    held = {
        "north": (kept[: 54 + twice], first, PARTS["north"]),
        "south": (kept[54:], first, PARTS["north"]),
        "west": ([n for n in range(120) if n % 2 and n % 7], ("height",), PARTS["west"]),
        "east": ([n for n in range(120) if n % 2 == 0], ("height",), PARTS["west"]),
    }
    for name, (numbers, columns, schema) in held.items():
        table = numbered(rng.permutation(numbers).tolist(), 120).select(["id", *columns])
        consortium.add_owner(name, table, schema, key_column="id", kinds="[blocks]")


def _open(consortium: Consortium, **changes: Any) -> Any:
    consortium.aggregator.open_round(consortium.terms(**BLOCKS, epsilon="9", **changes))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    return data


def test_blocks_of_four_owners_become_one_table(consortium: Consortium) -> None:
    """Everybody at an owner of each half is released, whole, with the cells of one person."""
    _two_by_two(consortium)
    data = _open(consortium)
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    expected = [n for n in range(120) if n % 10 and (n % 2 == 0 or n % 7)]
    folder = consortium.aggregator.folder("r1")
    release = Release.load(folder)
    table = release.tables["data"]
    assert table.num_rows == len(expected) == data.common_count
    assert table.column_names == ["age", "income", "height"]
    age, height = (table.column(name).to_numpy() for name in ("age", "height"))
    assert np.corrcoef(age, height)[0, 1] > 0.6
    assert np.corrcoef(age, np.random.default_rng(0).permutation(height))[0, 1] < 0.4
    spent = {
        name: str(agent.ledger.account(agent.home.settings.population).spent)
        for name, agent in consortium.agents.items()
    }
    assert spent == {"north": "6", "south": "6", "west": "3", "east": "3"}
    joint = release.manifest["joint"]
    assert (joint["kind"], joint["epsilon"]) == ("blocks", "9")
    assert joint["epsilon_of_a_person_at_every_owner"] == "18"
    assert "one owner" in joint["disjointness"]
    insiders = owners_of(release.manifest)
    assert insiders is not None, "the audit measures what owners learn of each other"
    assert {"north", "south", "west", "east"} < set(insiders)
    assert set(insiders["north"]) == set(insiders["south"])
    assert not set(insiders["north"]) & set(insiders["west"])
    assert sherd.verify(folder).passed
    for name, agent in consortium.agents.items():
        found = agent.journal.round("r1")
        assert found is not None
        assert found.manifest is not None, name


def test_blocks_of_four_processes(village: Village) -> None:
    """Real agents over mutual TLS make the same: everybody whole, with the cells of one person."""
    add_owners(village, Kind.BLOCKS, 60)
    village.start_all()
    village.open_round(kind=Kind.BLOCKS, epsilon="9")
    data = village.check_released()
    assert data.common_count == 60
    table = Release.load(village.premises.releases / "r1").tables["data"]
    assert (table.num_rows, table.column_names) == (60, ["age", "income", "height"])
    age, height = (table.column(name).to_numpy() for name in ("age", "height"))
    assert np.corrcoef(age, height)[0, 1] > 0.6
    assert {name: len(village.charges(name)) for name in BLOCK_OWNERS} == dict.fromkeys(
        BLOCK_OWNERS, 1
    )


def test_an_owner_is_told_of_its_own_people_only(consortium: Consortium) -> None:
    """The lists of two owners of the same attributes have nobody in common."""
    _two_by_two(consortium)
    data = _open(consortium)
    sizes = {owner: one.size // 32 for owner, one in data.commons.items()}
    assert sizes["north"] + sizes["south"] == sizes["west"] + sizes["east"] == data.common_count
    assert data.commons["north"].sha256 != data.commons["south"].sha256


def test_a_cell_with_two_owners_ends_the_round(consortium: Consortium) -> None:
    """Ten people at both owners of an attribute: refused before anybody spends anything."""
    _two_by_two(consortium, twice=10)
    data = _open(consortium)
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.OVERLAPPING_PEOPLE)
    for agent in consortium.agents.values():
        assert not agent.ledger.account(agent.home.settings.population).spent


def test_few_people_with_two_owners_are_left_out(consortium: Consortium) -> None:
    """Below what is told of, they are in nobody's list: no cell of the release has two owners."""
    _two_by_two(consortium, twice=4)
    data = _open(consortium)
    assert data.state is RoundState.RELEASED, (data.reason, data.details)
    kept = [n for n in range(120) if n % 10]
    double = set(kept[54:58])
    expected = [n for n in kept if n not in double and (n % 2 == 0 or n % 7)]
    assert data.common_count == len(expected)
    words = Release.load(consortium.aggregator.folder("r1")).manifest["guarantee"]["words"]
    assert "left out of the release" in words


def _offer(*attributes: str, top: int = 9) -> Offer:
    schema = sherd.Schema.from_data(
        {"attributes": {name: {"type": "integer", "domain": [0, top]} for name in attributes}}
    )
    return Offer(schema=json.dumps(schema.as_data()), rows=50, key=True)


def _terms(owners: str, **changes: Any) -> Terms:
    return terms_of(owners, 1_800_000_000, round="r1", **{**BLOCKS, **changes})


@pytest.mark.parametrize(
    ("offers", "reason", "said"),
    [
        (
            {"a": _offer("x", "y"), "b": _offer("y", "z")},
            Reason.OVERLAPPING_ATTRIBUTES,
            "'y' is offered by a and b",
        ),
        (
            {"a": _offer("x"), "b": _offer("x", top=8), "c": _offer("y")},
            Reason.DIFFERENT_ATTRIBUTES,
            "domain",
        ),
        ({"a": _offer("x"), "b": _offer("x")}, Reason.PLAN_UNSOUND, "horizontal"),
    ],
)
def test_offers_that_are_no_blocks_are_refused(
    offers: dict[str, Offer], reason: Reason, said: str
) -> None:
    """An attribute in two groups, a group that does not agree, and one group alone."""
    found = disagreements(_terms("".join(offers)), offers)
    assert found is not None
    assert found[0] is reason
    assert said in " ".join(found[1])


def test_budgets_are_composed_by_person() -> None:
    """A person has one owner in every group: the sum over groups of the most in each."""
    offers = {"a": _offer("x", "y"), "b": _offer("x", "y"), "c": _offer("z")}
    plan = make_plan(_terms("abc", epsilon="0.9"), offers, dict.fromkeys("abc", "k"), "k")
    assert [share.epsilon for share in plan.shares] == ["0.6", "0.6", "0.3"]
    assert (plan.composed, plan.bound) == ("0.9", "1.5")
    assert unsound(plan) is None
    cheaper = replace(plan, composed="0.6")
    assert unsound(cheaper) is not None
    given = {"a": "0.5", "b": "0.2", "c": "0.4"}
    plan = make_plan(
        _terms("abc", epsilon="0.9", sharing=Sharing.GIVEN, given=given),
        offers, dict.fromkeys("abc", "k"), "k",
    )  # fmt: skip
    assert plan.composed == "0.9"
    with pytest.raises(PlanError, match="exceed epsilon"):
        make_plan(
            _terms("abc", epsilon="0.8", sharing=Sharing.GIVEN, given=given),
            offers, dict.fromkeys("abc", "k"), "k",
        )  # fmt: skip
    assert composed(Kind.BLOCKS, dict.fromkeys("abc"), (("a", "b"), ("c",)))[1:] == (None, None)


def test_a_plan_whose_blocks_overlap_is_not_signed() -> None:
    """An aggregator that proposes a cell with two owners is found out by every owner."""
    offers = {"a": _offer("x", "y"), "b": _offer("z")}
    plan = make_plan(_terms("ab"), offers, dict.fromkeys("ab", "k"), "k")
    stolen = _offer("y", "z").schema
    other = replace(
        plan,
        schemas={**plan.schemas, sherd_hash(stolen): stolen},
        shares=(plan.shares[0], replace(plan.shares[1], schema_hash=sherd_hash(stolen))),
    )
    found = unsound(other)
    assert found is not None
    assert found[0] is Reason.PLAN_UNSOUND


def sherd_hash(schema: str) -> str:
    """The hash by which a plan names a schema."""
    return Offer(schema=schema, rows=1).parsed().hash


@pytest.mark.parametrize("changes", [{"linkage": Linkage.NONE}, {"dropout": Dropout.CONTINUE}])
def test_blocks_are_linked_and_whole(changes: dict[str, Any]) -> None:
    """Nobody can be joined without linking, nor without an owner."""
    with pytest.raises(PlanError, match="a round of blocks"):
        _terms("ab", **changes)


def test_people_are_matched_as_by_hand() -> None:
    """Random lists: each owner's people who are once in every group, and no others."""
    rng = np.random.default_rng(3)
    names = [int(n).to_bytes(32, "big") for n in range(40)]
    for _ in range(50):
        owners = {
            name: {n for n in names if rng.random() < share}
            for name, share in (("a", 0.4), ("b", 0.3), ("c", 0.9), ("d", 0.8))
        }
        groups = (("a", "b"), ("c",), ("d",))
        lists = {name: listed(b"".join(sorted(people))) for name, people in owners.items()}
        found = common_people(groups, lists)
        for name, people in owners.items():
            expected = [
                n for n in sorted(people)
                if (n in owners["a"]) != (n in owners["b"]) and n in owners["c"] & owners["d"]
            ]  # fmt: skip
            assert found[name].tobytes() == b"".join(expected)
        assert at_two_owners(groups, lists) == len(owners["a"] & owners["b"])


def test_groups_are_of_equal_names() -> None:
    """In whatever order an owner lists its attributes."""
    offers = {"a": _offer("x", "y"), "b": _offer("z"), "c": _offer("y", "x")}
    parsed = {owner: offer.parsed() for owner, offer in offers.items()}
    assert column_groups(parsed) == (("a", "c"), ("b",))
