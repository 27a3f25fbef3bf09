"""Candidates: tried out beside each other, compared, never released."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.csv as pacsv
import pytest

import sherd
from sherd.studio import job_kinds
from sherd.studio.made_up_rows import examples, made_up
from sherd.studio.workspace import Workspace, load_json

if TYPE_CHECKING:
    from pathlib import Path


def test_made_up_rows_come_from_the_schema_alone() -> None:
    """Values lie in their declared domains; examples are paired with what becomes of them."""
    schema = sherd.datasets.schema("adult")
    table = made_up(schema, 500, np.random.default_rng(0))
    ages = table["age"].to_pylist()
    assert min(ages) >= 17
    assert max(ages) <= 90
    assert set(table["income"].to_pylist()) == {"<=50K", ">50K"}
    shown = examples(schema, sherd.Plan(method="dp-um", epsilon=1.0, k=10))
    assert shown["paired"]
    assert shown["before"]["names"] == shown["after"]["names"]
    assert len(shown["before"]["rows"]) == len(shown["after"]["rows"]) == 5


def test_made_up_rows_cost_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's data is shown: the ledger is not touched, and trying again is not refused."""
    monkeypatch.setenv("SHERD_LEDGER", str(tmp_path / "ledger.db"))
    schema = sherd.datasets.schema("nursery")
    for _ in range(2):
        plan = sherd.Plan(method="mondrian", k=2, sensitive=["class"])
        assert "problem" not in examples(schema, plan)
    assert not (tmp_path / "ledger.db").exists()


def test_nothing_is_made_up_without_a_domain() -> None:
    """A schema that says nothing about an attribute gives no examples, and says why."""
    schema = sherd.Schema.from_data({"attributes": {"age": {"type": "integer"}}})
    shown = examples(schema, sherd.Plan(method="dp", epsilon=1.0, domain_from_data=1.5))
    assert shown == {"problem": "no values of 'age' can be made up"}


@pytest.mark.slow
def test_two_candidates_are_compared(tmp_path: Path) -> None:
    """Each is audited; one comparison judges both, and nothing leaves the private folder."""
    table = sherd.datasets.load("wine").slice(0, 400)
    pacsv.write_csv(table, tmp_path / "wine.csv")
    project = Workspace(tmp_path / "w").make(name="wine", source=str(tmp_path / "wine.csv"))
    schema = sherd.datasets.path("wine").with_suffix(".yaml")
    project.schema_file.write_bytes(schema.read_bytes())
    of = []
    for name, method in (("a" * 16, "dp"), ("b" * 16, "idp")):
        folder = tmp_path / "w" / "jobs" / name
        folder.mkdir()
        given = {"plan": {"method": method, "epsilon": 1.0}, "table": "own"}
        job_kinds.candidate(folder, project, given, lambda *_told: None)
        assert load_json(folder / "audit.json")["plan"]["method"] == method
        assert "<h1" in (folder / "audit.html").read_text()
        of.append({"id": name, "name": method, "table": "own"})
    folder = tmp_path / "w" / "jobs" / ("c" * 16)
    folder.mkdir()
    job_kinds.compare_all(folder, project, {"of": of}, lambda *_told: None)
    found = load_json(folder / "comparison.json")
    assert set(found["judged"]) == {"dp", "idp"}
    assert found["reason"]
    assert {path.name for path in tmp_path.iterdir()} == {"w", "wine.csv"}
