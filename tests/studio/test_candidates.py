"""Candidates: tried out beside each other, compared, never released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from small_tables import write_part
from studio_process import data_hashes

import sherd
from sherd.engines import selection
from sherd.studio import job_kinds
from sherd.studio.job_kinds import examples, made_up
from sherd.studio.workspace import Workspace, load_json, save_json

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.studio.workspace import Project


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


def wine(folder: Path) -> Project:
    """A project with some of the wines, and their schema."""
    write_part("wine", ("fixed_acidity", "alcohol", "ph", "quality"), 300, folder)
    project = Workspace(folder / "w").make(name="wine", source=str(folder / "wine.csv"))
    project.schema_file.write_bytes((folder / "wine.yaml").read_bytes())
    return project


@pytest.mark.slow
def test_two_candidates_are_compared(tmp_path: Path) -> None:
    """Each is audited; one comparison judges both, and nothing leaves the private folder."""
    project = wine(tmp_path)
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
    assert {path.name for path in tmp_path.iterdir()} == {"w", "wine.csv", "wine.yaml"}


@pytest.mark.parametrize(
    ("plan", "dial", "values"),
    [
        ({"method": "dp-graph"}, "epsilon", (0.5, 5.0)),
        pytest.param(
            {"method": "dp-um", "guarantee": "strict", "k": 30},
            "epsilon",
            (1.0, 8.0),
            marks=pytest.mark.slow,
        ),
        pytest.param({"method": "mondrian"}, "k", (5, 50), marks=pytest.mark.slow),
    ],
)
def test_map_of_what_has_no_rows_to_compare(
    tmp_path: Path, plan: dict[str, Any], dial: str, values: tuple[float, ...]
) -> None:
    """Methods whose rows are drawn, gone or coarser have a map, too: what of pairs is lost."""
    project = wine(tmp_path)
    folder = tmp_path / "w" / "jobs" / ("d" * 16)
    folder.mkdir()
    plans = [{**plan, dial: value} for value in values]
    job_kinds.explore_map(
        folder, project, {"plans": plans, "runs": 2, "table": "own"}, lambda *_told: None
    )
    cells = load_json(folder / "map.json")
    assert all(0 <= cell["loss"] <= 1 for cell in cells)
    assert all(cell["risk"] is not None for cell in cells)
    worse, better = cells[::-1] if dial == "k" else cells
    assert better["loss"] < worse["loss"] + 0.05


def test_a_table_that_does_not_fit_into_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is released on another engine, to the same bytes, and the page says what was not done."""
    project = wine(tmp_path)
    project.file("plan.yaml").write_text("{method: dp-um, epsilon: 1.0, k: 20}")
    made: dict[str, Any] = {}
    for place, small in (("e", False), ("f", True)):
        folder = tmp_path / "w" / "jobs" / (place * 16)
        folder.mkdir()
        for name in ("schema.yaml", "plan.yaml"):
            (folder / name).write_bytes(project.file(name).read_bytes())
        given = {"output": str(tmp_path / place), "row_map": None, "ledger": None, "seed": 3,
                 "format": "parquet", "spreadsheet_safe": False, "audit": small}  # fmt: skip
        if small:
            monkeypatch.setattr(selection, "available_memory", lambda: 10_000)
        job_kinds.release(folder, project, given, lambda *_told: None)
        made[place] = (data_hashes(tmp_path / place), load_json(folder / "released.json"))
        assert not (folder / "audit.json").exists(), "an audit would not fit either"
    assert made["e"][1]["engine"] == "memory"
    assert made["f"][1]["engine"] in ("columns", "duckdb")
    assert made["e"][0] == made["f"][0]


def test_rows_of_a_long_table_are_chosen_from_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few rows at random, each once, whatever blocks the table comes in."""
    monkeypatch.setattr(job_kinds, "MOST_EXPLORED", 40)
    path = tmp_path / "t.csv"
    path.write_text("n\n" + "".join(f"{i}\n" for i in range(1000)))
    project = Workspace(tmp_path / "w").make(name="t", source=str(path))
    save_json(project.file("profile.json"), {"rows": 1000})
    schema = sherd.Schema.from_data({"attributes": {"n": {"type": "integer", "domain": [0, 999]}}})
    rows = job_kinds.explored(project, schema, "own")["n"].to_pylist()
    assert len(set(rows)) == 40
    assert max(rows) > 800
    assert min(rows) < 200
