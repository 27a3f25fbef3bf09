"""Plan, ledger, table and method composed into a release."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.budget.amount import Amount
from sherd.budget.ledger import Ledger
from sherd.errors import (
    BudgetError,
    FormatError,
    OutputExistsError,
    StorageError,
    TableError,
    UsageError,
)
from sherd.guarantees import Adversary, Guarantee, NoGuarantee, Proposition, Unit
from sherd.randomness import Randomness
from sherd.release.bundle import Release, Staged, digest, read_manifest
from sherd.release.charging import Occasion, population_of
from sherd.release.method import DIRECTORY, Outcome
from sherd.release.protect import PAID, Settings, cores, protect, protect_to
from sherd.release.traits import Traits
from sherd.tables.coded_columns import FORM, Coding, is_coded

if TYPE_CHECKING:
    from pathlib import Path

MARKER = 8_675_309.25
SCHEMA = sherd.Schema.from_data(
    {"attributes": {"x": {"type": "number", "domain": ["0", "9000000"]}}, "population": "people"}
)
PLAN = sherd.Plan(method="dp-um", epsilon=0.5, k=3)
TABLE = pa.table({"x": [MARKER, *(float(i) for i in range(29))]})


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    """An empty ledger."""
    return Ledger(tmp_path / "private" / "ledger.db")


def _to(folder: Path, **more: Any) -> Release:
    return protect_to(folder, more.pop("read", lambda: TABLE), SCHEMA, PLAN, **more)


@pytest.mark.parametrize(
    ("schema", "plan", "text"),
    [
        ("people.yaml", PLAN, "the schema has the wrong type.*a str"),
        (SCHEMA, {"method": "dp"}, "the plan has the wrong type.*a dict"),
    ],
)
def test_what_is_no_schema_or_plan_is_said(schema: Any, plan: Any, text: str) -> None:
    """With how to make one, before anything is read."""
    with pytest.raises(UsageError, match=text):
        sherd.protect(None, schema, plan)


def test_the_population_is_as_named_then_as_in_the_schema() -> None:
    """Else the schema stands for it."""
    bare = sherd.Schema.from_data({"attributes": {"x": {"type": "boolean"}}})
    assert population_of(SCHEMA, "other") == "other"
    assert population_of(SCHEMA, None) == "people"
    with pytest.raises(UsageError, match="has no name"):
        population_of(SCHEMA, " ")
    assert population_of(bare, None) == f"unnamed-{bare.hash[:12]}"


def test_cores_are_counted_where_the_system_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not every system knows which cores a process may use."""
    assert cores() >= 1
    monkeypatch.delattr("os.sched_getaffinity")
    assert cores() >= 1


def test_settings_reach_the_run() -> None:
    """Seed, threads, order and who watches."""
    run = Settings(seed=3, threads=2, keep_order=True, progress=lambda *_: None).run(pa.table({}))
    assert run.randomness.is_seeded
    assert (run.threads, run.shuffle) == (2, False)
    assert not Settings().run(pa.table({})).randomness.is_seeded
    keyed = Settings(randomness=lambda _table: Randomness.keyed(bytes(32))).run(pa.table({}))
    assert not keyed.randomness.is_seeded
    assert keyed.randomness.words(2).tolist() == Randomness.keyed(bytes(32)).words(2).tolist()


def test_a_release_in_memory_is_charged_once_it_is_made(ledger: Ledger) -> None:
    """With a hash of the tables; nothing stays reserved."""
    release = protect(TABLE, SCHEMA, PLAN, ledger=ledger)
    assert release.manifest["budget"] == {
        "recorded": True, "population": "people", "spent": "0.5",
    }  # fmt: skip
    (entry,) = ledger.entries()
    assert entry.amount == Amount("0.5")
    assert entry.plan_hash == PLAN.hash
    assert ledger.reservations() == []


def test_without_a_ledger_nothing_is_recorded() -> None:
    """And the manifest says so."""
    release = protect(TABLE, SCHEMA, PLAN, settings=Settings(seed=1))
    assert release.manifest["budget"] == {"recorded": False}


class Copying:
    """The least a method can be: no noise, no epsilon, no promise."""

    name = "copying"
    title = "Copying"
    summary = "Copies."
    parameters = ()
    traits = Traits(family="copying")

    def check(self, _plan: Any, _schema: Any) -> None:
        """Everything is fine."""

    def guarantee(self, _plan: Any, _schema: Any) -> Guarantee:
        """None."""
        return Guarantee(
            notion=NoGuarantee(reason="it copies"),
            unit=Unit.RECORD,
            covers="nothing",
            adversary=Adversary.SEES_RELEASE,
            assumes=(),
            source=Proposition(work="none", place="none"),
        )

    def run(self, table: pa.Table, *_given: Any) -> Outcome:
        """The same table."""
        return Outcome(tables={"data": table})


def test_a_method_without_epsilon_spends_nothing(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is counted in a column of its own; without an order of rows it has none to tell."""
    monkeypatch.setitem(sys.modules, "copying", SimpleNamespace(METHOD=Copying()))
    monkeypatch.setitem(DIRECTORY, "copying", "copying:METHOD")
    release = protect(TABLE, SCHEMA, sherd.Plan(method="copying"), ledger=ledger)
    assert release.manifest["budget"] == {"recorded": False}
    assert release.order is None
    (entry,) = ledger.entries()
    assert (entry.measure, entry.amount) == ("none", Amount(0))
    assert ledger.account("people").columns["none"].spent == 1


def test_a_person_with_several_rows_is_charged_for_each(ledger: Ledger) -> None:
    """Three rows, three times epsilon: in the promise and in the ledger."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {**SCHEMA.as_data()["attributes"], "who": {"role": "identifier"}},
            "unit": "who",
            "rows_per_unit": 3,
        }
    )
    table = TABLE.append_column("who", pa.array([f"p{i // 3}" for i in range(30)]))
    release = protect(table, schema, PLAN, ledger=ledger, population="people")
    assert ledger.account("people").spent == Amount("1.5")
    assert release.manifest["guarantee"]["epsilon"] == 1.5
    assert release.manifest["guarantee"]["unit"] == "person"


def test_data_is_not_read_before_the_budget_is_reserved(tmp_path: Path, ledger: Ledger) -> None:
    """An overspent population is refused without a look at its table."""
    ledger.set_limit("people", Amount("0.4"))
    with pytest.raises(BudgetError):
        _to(tmp_path / "out", ledger=ledger, read=lambda: pytest.fail("the data was read"))
    assert not (tmp_path / "out").exists()
    assert ledger.reservations() == []


def test_an_existing_output_is_refused_before_the_data_is_read(tmp_path: Path) -> None:
    """And before anything is reserved."""
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputExistsError):
        _to(tmp_path / "out", read=lambda: pytest.fail("the data was read"))


@pytest.mark.parametrize("step", ["read", "before_publishing"])
def test_a_failure_before_the_charge_leaves_nothing(
    tmp_path: Path, ledger: Ledger, step: str
) -> None:
    """No folder, nothing staged, no reservation, no charge; that data was read is a look."""

    def fail(*_given: Any) -> Any:
        raise TableError("it does not fit")

    with pytest.raises(TableError) as caught:
        _to(tmp_path / "out", ledger=ledger, **{step: fail})
    assert PAID not in getattr(caught.value, "__notes__", ())
    assert [p.name for p in tmp_path.iterdir()] == ["private"]
    assert ledger.reservations() == []
    assert [entry.kind for entry in ledger.entries()] == (["look"] if step == "read" else [])


@pytest.mark.parametrize("error", [StorageError("the disk failed"), KeyboardInterrupt()])
def test_what_was_paid_for_stays(
    tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    """After the charge the staged bundle is kept, the error says so, and recovery publishes."""

    def fail(_self: Staged) -> Path:
        raise error

    monkeypatch.setattr(Staged, "publish", fail)
    with pytest.raises(type(error)) as caught:
        _to(tmp_path / "out", ledger=ledger)
    assert PAID in caught.value.__notes__
    assert ledger.account("people").spent == Amount("0.5")
    (pending,) = ledger.pending()
    assert pending.staged.stat().st_mode & 0o077 == 0
    with pytest.raises(FormatError):
        read_manifest(pending.staged)
    assert ledger.recover(lambda folder: digest(folder / "manifest.json")) == [tmp_path / "out"]
    assert read_manifest(tmp_path / "out")["budget"]["spent"] == "0.5"
    assert sherd.verify(tmp_path / "out").passed


def test_nothing_of_the_raw_data_is_in_the_bundle(tmp_path: Path, ledger: Ledger) -> None:
    """Neither a cell nor a number computed from one: manifests of neighbours are alike."""
    other = pa.table({"x": [0.0, *(float(i) for i in range(29))]})
    texts = []
    for name, table in (("a", TABLE), ("b", other)):
        _to(tmp_path / name, ledger=ledger, read=lambda table=table: table)
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        for part in ("created", "files", "versions"):
            manifest.pop(part)
        texts.append(json.dumps(manifest, sort_keys=True))
        assert b"8675309" not in (tmp_path / name / "manifest.json").read_bytes()
        assert b"8675309" not in (tmp_path / name / "datapackage.json").read_bytes()
    assert texts[0] == texts[1]


@pytest.mark.parametrize(("method", "promise"), [("idp-ls", "paper"), ("idp-cbls", "centroids")])
def test_manifests_of_the_weaker_methods_are_alike_too(method: str, promise: str) -> None:
    """Their noise depends on the data, what they publish about it does not."""
    plan = sherd.Plan(method=method, epsilon=1, k=3, guarantee=promise)
    flat = pa.table({"x": [5.0] * 30})
    found = []
    for table in (TABLE, flat):
        release = protect(table, SCHEMA, plan)
        assert release.findings
        found.append({k: v for k, v in release.manifest.items() if k != "created"})
    assert found[0] == found[1]


def test_rows_behind_a_release_of_fewer_rows() -> None:
    """Where rows were dropped, the order speaks of rows of the input."""
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "x": {"type": "number", "domain": ["0", "10"]},
                "w": {"type": "integer", "role": "insensitive"},
            },
            "missing": "drop",
        }
    )
    table = pa.table({"x": [None, 1.0, 2.0, None, 3.0, 4.0], "w": [0, 1, 2, 3, 4, 5]})
    release = protect(table, schema, sherd.Plan(method="dp", epsilon=1))
    assert release.order.tolist() == release.table.column("w").to_pylist()
    assert sorted(release.order.tolist()) == [1, 2, 4, 5]


def test_a_delivery_is_the_same_whether_its_method_knew_the_codes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the byte, in every file: an artefact that is made once more must be the one paid for."""
    random = np.random.default_rng(1)
    numbers = {"type": "number", "domain": [0, 100], "missing": "keep"}
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "a": numbers,
                "b": numbers,
                "c": {"type": "boolean", "role": "insensitive"},
            }
        }
    )
    cells = random.uniform(0, 100, 5000).round(2)
    gaps = pa.array(cells, mask=cells > 90)
    table = pa.table({"a": cells, "b": gaps, "c": cells > 50})
    plan = sherd.Plan(method="dp-um", k=100, epsilon=1.0)
    time = datetime(2026, 1, 1, tzinfo=UTC)

    def deliver(name: str) -> dict[str, bytes]:
        protect_to(
            tmp_path / name / "bundle",
            lambda: table,
            schema,
            plan,
            ledger=Ledger(tmp_path / name / "ledger.db"),
            population="people",
            settings=Settings(randomness=lambda _table: Randomness.keyed(b"k" * 32)),
            format=FORM,
            occasion=Occasion(hash="0" * 64, time=time),
        )
        folder = tmp_path / name / "bundle"
        return {path.name: path.read_bytes() for path in folder.iterdir()}

    at_once = deliver("at once")
    monkeypatch.setattr(Coding, "of", lambda _cells, _rows: None)
    assert deliver("looked up") == at_once
    with pa.ipc.open_stream(at_once[f"data.{FORM}"]) as stream:
        assert [is_coded(column) for column in stream.read_all().columns] == [True, True, False]
