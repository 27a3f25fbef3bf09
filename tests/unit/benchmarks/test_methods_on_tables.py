"""The numbers on the page about choosing a method are those that were measured."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's script as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "dp-graph"))
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("methods_on_tables")


def test_the_page_shows_what_is_stored(script: Any) -> None:
    """Every cell of the table comes from the file of numbers."""
    stored = json.loads(script.STORED.read_text())
    text = script.PAGE.read_text(encoding="utf-8")
    shown = text.partition(script.BEGIN)[2].partition(script.END)[0].strip()
    assert shown == script.page_table(stored)
    assert list(stored["tables"]) == list(script.TABLES)
    assert len(stored["tables"]) == 5


def test_a_number_of_the_page_comes_out_again(script: Any) -> None:
    """Nursery by dp-graph, measured anew: pairs within two records of a hundred."""
    known = json.loads(script.STORED.read_text())["tables"]["Nursery"]
    table, schema = script.table_of("Nursery", script.ROWS)
    assert table.num_rows == known["rows"]
    again = script.measured(table, schema, script.plan_of("dp-graph", "class"))
    before = known["methods"]["dp-graph"]
    assert abs(again["pairs"] - before["pairs"]) < 0.02
    assert again["fresh"] == pytest.approx(before["fresh"], abs=0.005)
    assert again["promise"] == before["promise"] == "holds"
    assert again["found"] < 0.05
