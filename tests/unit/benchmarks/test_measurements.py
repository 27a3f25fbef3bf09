"""What the experiments and the benchmarks measure, on few records."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
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
    return importlib.import_module("sliced_measures")


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


def test_every_limit_of_ranking_has_its_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit whose figure is not measured would always be kept; ratios are those of two times."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    ranking = importlib.import_module("ranking")
    found = ranking.measure(20_000, 3, large=False)
    threads = min(2, len(os.sched_getaffinity(0)))
    assert {name for name in ranking.LIMITS if threads == 2 or "2 threads" not in name} <= set(
        found
    )
    # Of times this short an exponent can come out below 0 beside other work.
    assert all(value > 0 for name, value in found.items() if "exponent" not in name)
    assert found["speed-up of two cores"] == pytest.approx(
        found["seconds, 1 threads"] / found[f"seconds, {threads} threads"]
    )


def test_a_row_of_an_answer_that_was_left_out_is_answered_as_without_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Groups of one are exact; the state nobody of which is released gets the mean of all."""
    monkeypatch.syspath_prepend(str(BENCHMARKS / "004-fragments"))
    ipums = importlib.import_module("ipums")
    table = pa.table({"state": ["a", "a", "b", "c"], "hours": [10.0, 20.0, 40.0, 50.0]})
    given = ipums.Case(
        table=table,
        schema=None,
        constraints=None,
        fragments=(("state",), ("hours",)),
        sizes=(1, 1),
        similar=(),
        queries=(("SELECT state, AVG(hours) FROM release GROUP BY state", 0),),
    )
    alone = np.arange(4)
    assert ipums.utilities(given, np.array([alone, alone])) == [(0, 1.0)]
    for left_out, off in ((2, 10.0), (3, 20.0)):  # in the middle, and at the end
        place = np.array([alone, alone])
        place[:, left_out] = -1
        # the mean of all is 30, and the real answers are 15, 40 and 50
        assert ipums.utilities(given, place) == [(0, pytest.approx(1 - off / (15 + 10 + 20)))]


def test_a_script_without_limits_is_not_said_to_keep_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """And one that ends with an error has missed one, whatever it is."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    run = importlib.import_module("run")
    assert set(run.WITHOUT_LIMITS) < set(run.SCRIPTS)
    assert run._judged("noise.py", 0) == "no limits are set"
    assert run._judged("ranking.py", 0) == "every limit kept"
    assert run._judged("ranking.py", 1) == "a limit was missed"
