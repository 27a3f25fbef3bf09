"""What the experiments of papers 002 and 003 measure, on few records."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sherd.randomness import Randomness

if TYPE_CHECKING:
    from types import ModuleType

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(name="generalised")
def _generalised(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Classification on generalised records."""
    pytest.importorskip("sklearn")
    monkeypatch.syspath_prepend(str(BENCHMARKS / "002-arbdistdp"))
    return importlib.import_module("generalised")


@pytest.fixture(name="fragmenting")
def _fragmenting(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Sizes, rates and disclosure of sliced tables."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "003-slicing"))
    return importlib.import_module("fragmenting")


@pytest.mark.parametrize("method", ["diffgen", "arbdistdp", "printed"])
def test_every_protocol_is_more_accurate_than_the_most_frequent_class(
    generalised: ModuleType, method: str
) -> None:
    """Nursery at a generous ε, by both trees; the same seed gives the same release."""
    train, test = generalised.divided("nursery", 1)
    _, least = generalised.bounds("nursery", 1)
    made = [
        generalised.partition("nursery", 10.0, method, train, 1, utility="max", max_leaves=600)
        for _ in range(2)
    ]
    np.testing.assert_array_equal(made[0].counts, made[1].counts)
    told = generalised.accuracies("nursery", made[0], len(train), test)
    assert set(told) == set(generalised.TREES)
    assert min(told.values()) > least + 0.3


def test_columns_of_each_method(fragmenting: ModuleType) -> None:
    """Three of slicing, one of generalisation, two of bucketisation; every attribute in one."""
    task = fragmenting.Task.adult(1, rows=400, more=4)
    names = sorted(task.train.column_names)
    counts = {"slicing, as printed": 3, "generalisation": 1, "bucketisation": 2}
    for method, expected in counts.items():
        plan, outcome = task.released(Randomness.seeded(1), **fragmenting.parameters(method, 3))
        columns = fragmenting.columns_of(plan, outcome)
        assert len(columns) == expected
        assert sorted(name for _, own in columns for name in own) == names
        sizes = fragmenting.column_sizes(plan, outcome)
        assert sizes["attributes a column"] == pytest.approx(len(names) / expected)
        assert sizes["values of the largest column"] <= 400
        assert 1 <= fragmenting.bucket_count(plan, outcome) <= 400 // 3


def test_people_are_found_in_a_bucketised_table_more_easily_than_in_a_generalised_one(
    fragmenting: ModuleType,
) -> None:
    """Exact quasi-identifiers give members away."""
    task = fragmenting.Task.adult(1, rows=3_000)
    found = fragmenting.other_advantages(task, 3, 1)
    assert 0 <= found["generalisation"] < found["bucketisation"] <= 1
    assert found["bucketisation"] > 0.5


def test_some_k_anonymous_people_share_their_occupation(fragmenting: ModuleType) -> None:
    """A share of the records; fewer in larger classes."""
    task = fragmenting.Task.adult(1, rows=5_000)
    small, large = (fragmenting.homogeneous(task, k, 1) for k in (2, 10))
    assert 0 <= large < small < 1
