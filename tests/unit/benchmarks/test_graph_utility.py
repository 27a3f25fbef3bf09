"""The short version of the benchmark of ``dp-graph``: one release, its limit on pairs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

import sherd

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "dp-graph"


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's script as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARK))
    return importlib.import_module("graph_utility")


def test_pairs_of_adult_are_kept_within_the_limit(benchmark_module: Any) -> None:
    """ε = 0.3, δ = 1e-9."""
    adult = benchmark_module.Adult()
    plan = sherd.Plan(method="dp-graph", class_attribute="income", epsilon=0.3, delta=1e-9)
    released = adult.coded(sherd.protect(adult.table, adult.schema, plan).table)
    assert adult.distance(released) <= benchmark_module.LIMITS[0.3, 1e-9][0]
    assert adult.distance(adult.codes) == 0
