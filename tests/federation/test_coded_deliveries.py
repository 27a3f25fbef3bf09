"""Deliveries of codes: the same release, the form agreed on by all, and nothing but that form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deliveries import artefacts, poison, round_of
from driving import step
from people import SCHEMA, people

from sherd.federation.aggregator import round_tasks
from sherd.federation.owner import owner_tasks
from sherd.federation.owner.release_taking import countersign
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState
from sherd.federation.wire.client import Client
from sherd.tables.coded_columns import LEAST_ROWS

if TYPE_CHECKING:
    from collections.abc import Callable

    from consortium import Consortium

    from sherd.federation.protocol.joint_plan import JointPlan

K = 50


def add(consortium: Consortium) -> None:
    """Two owners of the same attributes, with tables that are long enough to be coded."""
    for number, name in enumerate(("north", "south")):
        table = people(LEAST_ROWS, seed=number, first=number * LEAST_ROWS)
        consortium.add_owner(name, table, SCHEMA, key_column="id")


def run(consortium: Consortium, round_id: str = "r1") -> JointPlan:
    """A round to its end; its plan."""
    consortium.aggregator.open_round(consortium.terms(round_id, parameters={"k": K}))
    consortium.settle()
    data = round_of(consortium, round_id)
    assert data.plan is not None
    return data.plan


def delivered(consortium: Consortium, owner: str) -> list[str]:
    """The names of the tables that an owner delivers."""
    return sorted(path.rpartition("/")[2] for path in artefacts(consortium.agents[owner]))


def test_codes_give_the_release_that_plain_columns_give(consortium: Consortium) -> None:
    """Cell by cell what was protected; and every owner finds its part."""
    add(consortium)
    plan = run(consortium)
    assert plan.coded
    assert round_of(consortium).state is RoundState.RELEASED
    parts = []
    for name in ("north", "south"):
        (folder,) = consortium.homes[name].outbox.iterdir()
        assert "data.coded.arrows" in [path.name for path in folder.iterdir()]
        with pa.ipc.open_stream((folder / "data.coded.arrows").read_bytes()) as stream:
            table = stream.read_all()
        assert pa.types.is_dictionary(table.schema.field("income").type)
        parts.append(
            pa.table(
                {
                    n: c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c
                    for n, c in zip(table.column_names, table.columns, strict=True)
                }
            )
        )
    order = [(name, "ascending") for name in ("age", "income", "colour")]
    folder = consortium.aggregator.folder("r1")
    released = pq.read_table(folder / "data.parquet")
    assert [str(kind) for kind in released.schema.types] == ["int64", "double", "string"]
    assert released.sort_by(order).equals(pa.concat_tables(parts).sort_by(order))
    agent = consortium.agents["north"]
    assert countersign(agent.journal, "r1", folder, agent.key)


def test_an_owner_verifies_what_it_delivered(consortium: Consortium) -> None:
    """The artefact in its outbox is a bundle as any other."""
    from sherd.verifying.verification import verify

    add(consortium)
    run(consortium)
    (folder,) = consortium.homes["north"].outbox.iterdir()
    found = verify(folder)
    assert found.passed, [check for check in found.checks if check.passed is False]


def test_with_an_owner_of_an_earlier_version_all_columns_are_plain(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan says nothing of codes then, which that owner could not read."""
    add(consortium)
    now = owner_tasks._offers_coded
    monkeypatch.setattr(
        owner_tasks,
        "_offers_coded",
        lambda agent, terms: agent.name != "south" and now(agent, terms),
    )
    plan = run(consortium)
    assert plan.coded is None
    assert round_of(consortium).state is RoundState.RELEASED
    assert "data.arrows" in delivered(consortium, "north")


def test_to_an_aggregator_of_an_earlier_version_columns_are_plain(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that does not say at login that it takes codes is not told of them."""
    never = property(lambda _self: False, lambda _self, _told: None)
    monkeypatch.setattr(Client, "takes_coded", never, raising=False)
    add(consortium)
    plan = run(consortium)
    offers = round_of(consortium).offers.values()
    assert [offer.coded for offer in offers] == [None, None]
    assert plan.coded is None
    assert "data.arrows" in delivered(consortium, "north")


@pytest.mark.parametrize("first", [None, True])
def test_a_repetition_has_the_form_of_the_first_round(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, first: bool | None
) -> None:
    """A round that an earlier version began is repeated to the same bytes, which cost nothing."""
    from sherd.errors import VerificationError

    add(consortium)

    def refuse(_data: Any, owner: str, _tables: Any) -> None:
        raise VerificationError(f"the delivery of {owner} is not what the plan asks for")

    with monkeypatch.context() as then:
        then.setattr(round_tasks, "check", refuse)
        if first is None:
            then.setattr(owner_tasks, "_offers_coded", lambda _agent, _terms: False)
        consortium.aggregator.open_round(consortium.terms(parameters={"k": K}))
        for _ in range(8):  # both are charged before the aggregator looks
            for agent in consortium.agents.values():
                step(agent)
        consortium.settle()
    assert round_of(consortium).state is RoundState.ABORTED
    north = consortium.agents["north"]
    made = artefacts(north)
    assert made
    consortium.aggregator.repeat("r1", name="r2", deadline=int(consortium.time) + 3600)
    consortium.settle()
    again = round_of(consortium, "r2")
    assert again.plan is not None
    assert (again.state, again.plan.coded) == (RoundState.RELEASED, first)
    assert artefacts(north) == made
    assert str(north.ledger.account("people of north").spent) == "1"


def test_codes_that_were_not_offered_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An aggregator cannot ask for them by itself."""
    import dataclasses

    from sherd.federation.protocol import round_machine
    from sherd.federation.protocol.composition import make_plan

    def forced(*args: Any) -> JointPlan:
        return dataclasses.replace(make_plan(*args), coded=True)

    monkeypatch.setattr(owner_tasks, "_offers_coded", lambda _agent, _terms: False)
    monkeypatch.setattr(round_machine, "plan_or_reason", forced)
    add(consortium)
    run(consortium)
    data = consortium.agents["north"].journal.round("r1")
    assert data is not None
    assert data.reason is Reason.PLAN_CHANGED
    assert not artefacts(consortium.agents["north"])


def recoded(
    change: Callable[[np.ndarray[Any, Any], np.ndarray[Any, Any]], tuple[Any, Any]],
    name: str = "income",
) -> Callable[[pa.Table], pa.Table]:
    """A delivery with other codes and another list."""

    def forge(table: pa.Table) -> pa.Table:
        whole = table.column(name).combine_chunks()
        codes, values = change(whole.indices.to_numpy(), whole.dictionary.to_numpy())
        listed = values if isinstance(values, pa.Array) else pa.array(values)
        column = pa.DictionaryArray.from_arrays(pa.array(codes), listed)
        return table.set_column(table.column_names.index(name), name, column)

    return forge


CASES = {
    "a list that is not sorted": recoded(
        lambda codes, values: (len(values) - 1 - codes, values[::-1])
    ),
    "codes that are too long": recoded(lambda codes, values: (codes.astype(np.uint32), values)),
    "a value that no cell has": recoded(lambda codes, values: (codes, np.append(values, 999.5))),
    "too few cells of a value": recoded(
        lambda codes, values: (np.r_[[len(values)], codes[1:]].astype(codes.dtype),
                               np.append(values, 999.5))
    ),
    "not a number": recoded(
        lambda codes, values: (codes, np.append(values[:-1], float("nan")))
    ),
    "a value outside the domain": recoded(
        lambda codes, values: (codes, np.append(values[:-1], 1e6))
    ),
    "whole numbers for others": recoded(
        lambda codes, values: (codes, np.arange(len(values), dtype=np.int64))
    ),
    "numbers for whole ones": recoded(
        lambda codes, values: (codes, values.astype(np.float64)), "age"
    ),
    "days": recoded(
        lambda codes, values: (codes, pa.array(range(len(values)), pa.int32()).view(pa.date32()))
    ),
    "nothing": lambda table: table.set_column(
        1, "income", pa.array([None] * LEAST_ROWS, pa.float64()).dictionary_encode()
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_codes_that_the_plan_does_not_ask_for(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """The round ends, by name of whose fault it is."""
    add(consortium)
    poison(monkeypatch, CASES[case])
    run(consortium)
    data = round_of(consortium)
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.VERIFICATION)
    assert "the delivery of south" in data.details[0]


def test_codes_without_a_plan_that_says_so_are_refused(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However right their form is."""
    from sherd.tables.coded_columns import coded

    add(consortium)
    monkeypatch.setattr(owner_tasks, "_offers_coded", lambda _agent, _terms: False)
    poison(monkeypatch, coded)
    run(consortium)
    data = round_of(consortium)
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.VERIFICATION)
    assert "of type dictionary" in data.details[0]
