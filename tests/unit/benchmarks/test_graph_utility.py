"""The short version of the benchmark of ``dp-graph``: many releases, the limit on their pairs."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sherd

BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "dp-graph"


@pytest.fixture
def benchmark_module(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark's script as a module."""
    monkeypatch.syspath_prepend(str(BENCHMARK))
    return importlib.import_module("graph_utility")


def test_pairs_of_adult_are_kept_within_the_limit(benchmark_module: Any) -> None:
    """ε = 0.3, δ = 1e-9: the mean of so many releases that chance cannot miss the limit.

    A release's distance deviates by .0038 at most about a mean of .064 at most: the mean of
    thirty is 5.7 deviations from the limit of .068, a false alarm in more than a hundred million.
    """
    adult = benchmark_module.Adult()
    plan = sherd.Plan(method="dp-graph", class_attribute="income", epsilon=0.3, delta=1e-9)
    distances = [
        adult.distance(adult.coded(sherd.protect(adult.table, adult.schema, plan).table))
        for _ in range(30)
    ]
    assert np.mean(distances) <= benchmark_module.LIMITS[0.3, 1e-9][0]
    assert np.std(distances, ddof=1) > 0, "the releases are one and the same"
    assert adult.distance(adult.codes) == 0
