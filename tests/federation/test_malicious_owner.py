"""An owner that attacks the aggregator by what it delivers: refused, bounded, and alone in it."""

from __future__ import annotations

import contextlib
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deliveries import poison, written
from driving import step
from people import SCHEMA, people

from sherd.errors import PeerError
from sherd.federation.aggregator import round_tasks
from sherd.federation.aggregator.mapped_bulk import scratch_of
from sherd.federation.aggregator.round_work import MOST_TRIES
from sherd.federation.protocol.reasons import Reason
from sherd.federation.protocol.states import RoundState
from sherd.federation.wire.arrow_stream import read_table

if TYPE_CHECKING:
    from collections.abc import Callable

    from consortium import Consortium

ROWS = 12


def add(consortium: Consortium) -> None:
    """Two owners of the same attributes."""
    for number, name in enumerate(("north", "south")):
        table = people(ROWS, seed=number, first=number * 100)
        consortium.add_owner(name, table, SCHEMA, key_column="id")


def put(name: str, values: Any) -> Callable[[pa.Table], pa.Table]:
    """A change that replaces a column."""
    return lambda table: table.set_column(table.column_names.index(name), name, values)


CASES = {
    "text in an integer": put("age", pa.array(["forty"] * ROWS)),
    "dates in an integer": put("age", pa.array([1] * ROWS, pa.date32())),
    "nothing in an integer": put("age", pa.array([None] * ROWS, pa.int64())),
    "floats in an integer": put("age", pa.array([1.5] * ROWS)),
    "not a number": put("income", pa.array([float("nan")] * ROWS)),
    "infinity": put("income", pa.array([float("inf")] * ROWS)),
    "numbers as labels": put("income", pa.array([1.0] * ROWS).dictionary_encode()),
    "an unknown label": put("colour", pa.array(["pink"] * ROWS)),
    "an unknown label by code": put("colour", pa.array(["pink"] * ROWS).dictionary_encode()),
    "dates as labels": put("colour", pa.array([1] * ROWS, pa.date32())),
    "too few": lambda table: table.slice(1),
    "another column": lambda table: table.append_column("more", table.column("age")),
}


@pytest.mark.parametrize("case", CASES)
def test_what_the_plan_does_not_ask_for(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """The round ends, by name of whose fault it is, and the next one is released."""
    add(consortium)
    poison(monkeypatch, CASES[case])
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.VERIFICATION)
    assert "the delivery of south" in data.details[0]
    monkeypatch.undo()
    consortium.aggregator.open_round(consortium.terms("r2"))
    consortium.settle()
    data = consortium.store.round("r2")
    assert data is not None
    assert data.state is RoundState.RELEASED


@pytest.mark.parametrize("held", [True, False])
def test_deliveries_are_checked_in_memory_or_in_files(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, held: bool
) -> None:
    """Small ones need no folder, which takes longer than they do; large ones never fill memory."""
    add(consortium)
    poison(monkeypatch, CASES["text in an integer"])
    made = list[str]()

    def noted(aggregator: Any, round_id: str) -> Any:
        made.append(round_id)
        return scratch_of(aggregator, round_id)

    monkeypatch.setattr(round_tasks, "scratch_of", noted)
    if not held:
        monkeypatch.setattr(round_tasks, "MOST_HELD", 0)
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.VERIFICATION)
    assert bool(made) is not held


def test_a_bad_delivery_is_refused_before_others_are_charged(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that is slower than the attacker spends nothing."""
    add(consortium)
    poison(monkeypatch, CASES["text in an integer"])
    consortium.aggregator.open_round(consortium.terms())
    north, south = consortium.agents["north"], consortium.agents["south"]
    for _ in range(2):
        step(north), step(south)
    for _ in range(2):
        step(south)
    consortium.aggregator.work()
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.state is RoundState.ABORTED
    assert not north.ledger.account("people of north").spent
    assert south.ledger.account("people of south").spent


def test_a_dictionary_is_not_written_out() -> None:
    """One label of 2 MB that 3,000 cells name would take 6 GB: it is counted, not written out."""
    label = "x" * (2 << 20)
    indices = pa.array([0] * 3000, pa.int32())
    raw = written(pa.table({"colour": pa.DictionaryArray.from_arrays(indices, [label])}))
    assert len(raw) < 3 << 20
    tracemalloc.start()
    began = time.process_time()
    before = pa.total_allocated_bytes()
    with pytest.raises(PeerError) as caught:
        read_table(raw, most=1 << 30)
    assert caught.value.reason is Reason.TOO_LARGE
    assert pa.total_allocated_bytes() - before < 16 << 20
    assert tracemalloc.get_traced_memory()[1] < 16 << 20
    tracemalloc.stop()
    assert time.process_time() - began < 5.0


def test_a_delivery_beyond_the_plans_limit_is_not_announced(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan states how large a delivery may be; a larger one is refused before it comes."""
    add(consortium)
    poison(monkeypatch, lambda table: pa.concat_tables([table] * 2000))
    consortium.aggregator.open_round(consortium.terms(delivery_bytes=200_000))
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert data.plan is not None
    assert data.plan.terms.delivery_bytes == 200_000
    assert data.state is not RoundState.RELEASED
    assert "south" not in data.deliveries
    events = [line[2:] for line in consortium.agents["south"].journal.audit()]
    assert ("the aggregator refused a message", "too-large") in events


@pytest.mark.parametrize("how", ["error", "death"])
def test_a_round_that_always_fails_is_ended(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """After a bounded number of tries, counted across restarts; others are not held up."""
    add(consortium)
    good, tries = round_tasks.check, list[str]()  # type: ignore[attr-defined]

    class Killed(BaseException):
        """Stands for the kernel's out-of-memory killer."""

    def failing(data: Any, owner: str, tables: Any) -> None:
        if data.terms.round == "r1":
            tries.append(owner)
            raise Killed if how == "death" else RuntimeError
        good(data, owner, tables)

    monkeypatch.setattr(round_tasks, "check", failing)
    for round_id in ("r1", "r2"):
        consortium.aggregator.open_round(consortium.terms(round_id))
    for _ in range(20):
        for agent in consortium.agents.values():
            step(agent)
        with contextlib.suppress(Killed, RuntimeError):
            consortium.aggregator.work()
    assert len(tries) == MOST_TRIES
    states = {}
    for round_id in ("r1", "r2"):
        data = consortium.store.round(round_id)
        assert data is not None
        states[round_id] = (data.state, data.reason)
    assert states["r1"] == (RoundState.ABORTED, Reason.QUARANTINED)
    assert states["r2"] == (RoundState.RELEASED, None)


def test_categories_are_compared_in_linear_time() -> None:
    """Twenty thousand labels, none of them shared, are compared in less than a second."""
    from sherd.federation.protocol.agreement import horizontal
    from sherd.tables.schema import Schema

    def schema(prefix: str) -> Schema:
        values = [f"{prefix}{i}" for i in range(20_000)]
        return Schema.from_data({"attributes": {"a": {"type": "category", "values": values}}})

    given = {"north": schema("n"), "south": schema("s")}
    began = time.process_time()
    (text,) = horizontal(given)
    assert time.process_time() - began < 1.0
    assert "and 19995 more" in text
