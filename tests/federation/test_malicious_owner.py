"""An owner that attacks the aggregator by what it delivers: refused, bounded, and alone in it."""

from __future__ import annotations

import contextlib
import io
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


CALENDAR = """\
attributes:
  id: {role: identifier}
  born: {type: date, domain: [1900-01-01, 2020-12-31]}
  seen: {type: datetime, domain: ["2000-01-01 00:00:00", "2020-12-31 00:00:00"]}
  size: {type: number, domain: [0, 1000]}
  note: {type: number, role: insensitive}
  day: {type: date, role: insensitive}
  word: {type: category, role: insensitive, values: [a, b]}
"""


def calendar(first: int) -> pa.Table:
    """People with days, times, and columns that are released as they are."""
    return pa.table(
        {
            "id": [f"id-{first + number}" for number in range(ROWS)],
            "born": pa.array(range(ROWS), pa.int32()).cast(pa.date32()),
            "seen": pa.array([10**15 + number for number in range(ROWS)]).cast(pa.timestamp("us")),
            "size": [float(number) for number in range(ROWS)],
            "note": [0.5] * ROWS,
            "day": pa.array([1] * ROWS, pa.date32()),
            "word": ["a"] * ROWS,
        }
    )


def bits(value: int, kind: pa.DataType) -> pa.Array:
    """Cells that all have the same bits."""
    return pa.array([value] * ROWS, pa.int32() if kind == pa.date32() else pa.int64()).view(kind)


LATE = {
    "a day of no calendar": put("born", bits(2**31 - 1, pa.date32())),
    "a day outside its domain": put("born", bits(18_700, pa.date32())),
    "times for days": put("born", bits(10**15, pa.timestamp("us"))),
    "milliseconds that overflow": put("born", bits(86_400_000 << 36, pa.date64())),
    "days for times": put("seen", bits(-(2**31), pa.date32())),
    "a time outside its domain": put("seen", bits(10**16, pa.timestamp("us"))),
    "a zone that is none": put("seen", bits(10**15, pa.timestamp("us", tz="\x1b]0;owned"))),
    "seconds that overflow": put("seen", bits(2**62, pa.timestamp("s"))),
    "just above the domain": put("size", pa.array([1000.0000001] * ROWS)),
    "half floats": put("size", pa.array([1.0] * ROWS).cast(pa.float16())),
    "short decimals": put(
        "size", pa.array([1] * ROWS).cast(pa.decimal128(20)).cast(pa.decimal32(3))
    ),
    "large numbers, untouched": put("note", pa.array([2**63] * ROWS, pa.uint64())),
    "whole numbers that no float has": put("note", pa.array([2**62] * ROWS)),
    "infinity, untouched": put("note", pa.array([float("inf")] * ROWS)),
    "a day of no calendar, untouched": put("day", bits(-(2**31), pa.date32())),
    "truths for labels, untouched": put("word", pa.array([True] * ROWS)),
    "a list with nothing in it": put(
        "word",
        pa.DictionaryArray.from_arrays(
            pa.array([0] * ROWS, pa.int8()), pa.array([None], pa.string())
        ),
    ),
}


@pytest.mark.parametrize("case", LATE)
def test_what_would_fail_when_all_have_paid(
    consortium: Consortium, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    """What assembling or verifying would stumble over is refused by name as it arrives."""
    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, calendar(number * 100), CALENDAR, key_column="id")
    poison(monkeypatch, LATE[case])
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    data = consortium.store.round("r1")
    assert data is not None
    assert (data.state, data.reason) == (RoundState.ABORTED, Reason.VERIFICATION)
    assert "the delivery of south" in data.details[0]
    assert data.details[0].isprintable()


def test_released_as_they_are(consortium: Consortium) -> None:
    """Days, times and untouched columns of honest owners are released, and verify."""
    from sherd.verifying.verification import verify

    for number, name in enumerate(("north", "south")):
        consortium.add_owner(name, calendar(number * 100), CALENDAR, key_column="id")
    consortium.aggregator.open_round(consortium.terms())
    consortium.settle()
    result = verify(consortium.aggregator.folder("r1"))
    assert result.passed, result.failed


@pytest.mark.parametrize("values", [1 << 8, 1 << 16])
def test_a_list_as_long_as_its_codes_allow(values: int) -> None:
    """An honest column of so many values in several batches is counted like any other."""
    import numpy as np

    from sherd.federation.aggregator.delivery_check import _counted
    from sherd.tables.coded_columns import coded
    from sherd.tables.write import write_pieces

    rows = max(values * 4, 1 << 17)
    table = coded(pa.table({"a": np.sort(np.arange(rows) % values)}))
    assert pa.types.is_dictionary(table.schema.field("a").type)
    sink = io.BytesIO()
    pieces = (table.slice(start, 1 << 16) for start in range(0, rows, 1 << 16))
    write_pieces(pieces, table.schema, sink, "data.coded.arrows")
    given, times = _counted(read_table(sink.getvalue(), 1 << 30).column("a"))
    assert sorted(given.to_pylist()) == list(range(values))
    assert set(times.tolist()) == {rows // values}


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
