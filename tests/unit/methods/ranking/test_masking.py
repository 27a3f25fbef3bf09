"""What the ranking methods check and do together."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import PlanError, SchemaError
from sherd.randomness import Randomness
from sherd.release.method import Run
from sherd.release.plan import Plan
from sherd.tables.schema import Schema

NUMBER = {"type": "number", "domain": ["0", "100"]}


def _schema(attributes: dict[str, Any] | None = None, **more: Any) -> Schema:
    return Schema.from_data({"attributes": attributes or {"x": NUMBER}, **more})


def _run(table: pa.Table, schema: Schema, plan: Plan, **more: Any) -> Any:
    plan.check(schema)
    return plan.spec.run(table, schema, plan, Run(randomness=Randomness.seeded(2), **more))


def test_noise_too_wide_to_draw_is_refused_before_the_data() -> None:
    """From plan and schema alone."""
    with pytest.raises(PlanError, match="too wide to draw exactly"):
        Plan(method="dp", epsilon=1e-6).check(_schema({"x": {**NUMBER, "domain": ["0", "600"]}}))


STRICT: dict[str, Any] = {"method": "dp-um", "epsilon": 1, "k": 3, "guarantee": "strict"}


@pytest.mark.parametrize(
    ("attribute", "schema", "plan", "text"),
    [
        ({}, {"missing": "refuse"}, {"domain_from_data": 2.0}, "takes nothing from the data"),
        ({}, {"missing": "refuse"}, {"category_order": "frequency"}, "takes nothing from the data"),
        ({}, {"missing": "keep"}, {}, "missing: keep"),
        ({"missing": "drop"}, {"missing": "refuse"}, {}, "missing: drop"),
        ({}, {"missing": "refuse", "outside": "drop"}, {}, "outside: drop"),
        (
            {"type": "category", "values": ["a"], "values_from_data": True, "domain": None},
            {"missing": "refuse"},
            {},
            "were taken from the data",
        ),
    ],
)
def test_a_strict_release_refuses_what_no_epsilon_covers(
    attribute: Any, schema: Any, plan: Any, text: str
) -> None:
    """Bounds, orders and labels from the data, gaps kept apart, records dropped."""
    with pytest.raises((PlanError, SchemaError), match=text):
        Plan(**{**STRICT, **plan}).check(_schema({"x": {**NUMBER, **attribute}}, **schema))


def test_a_floor_stands_in_for_scales_that_are_0() -> None:
    """By default a thousandth of the range for enlarged noise, none for the paper's."""
    table = pa.table({"x": [50.0] * 300})
    plan: dict[str, Any] = {"method": "idp-cbls", "epsilon": 1, "k": 3}
    still = _run(table, _schema(), Plan(**plan, guarantee="paper"))
    assert set(still.tables["data"]["x"].to_pylist()) == {50.0}
    floored = _run(table, _schema(), Plan(**plan, guarantee="paper", min_scale=0.01))
    moved = _run(table, _schema(), Plan(**plan, guarantee="centroids"))
    wide, narrow = (
        np.abs(np.array(found.tables["data"]["x"].to_pylist()) - 50).mean()
        for found in (floored, moved)
    )
    # The mean of |Laplace(b)| is b: 1 and 0.1 here, within five standard errors of 100 draws.
    assert 0.5 < wide < 1.5
    assert 0.05 < narrow < 0.15
    off = _run(table, _schema(), Plan(**plan, guarantee="centroids", min_scale=0))
    assert set(off.tables["data"]["x"].to_pylist()) == {50.0}


def test_weights_and_ks_reach_their_attribute() -> None:
    """More epsilon, less noise; another k, other clusters."""
    n = 3000
    table = pa.table({name: np.full(n, 50.0) for name in "xyz"})
    schema = _schema(dict.fromkeys("xyz", NUMBER))
    plan = Plan(
        method="dp-um", epsilon=300, k=1, weights={"x": 8, "y": 1}, k_of={"z": 10}, min_scale=0
    )
    found = _run(table, schema, plan).tables["data"]
    size = {name: np.abs(found[name].to_numpy() - 50).mean() for name in "xyz"}
    # Scales: 100/240, 100/30, 100/(30·10).
    assert size["x"] == pytest.approx(100 / 240, rel=0.15)
    assert size["y"] == pytest.approx(100 / 30, rel=0.15)
    assert size["z"] == pytest.approx(100 / 300, rel=0.35)


def test_the_share_without_noise_counts_cells() -> None:
    """An attribute with few values weighs little."""
    gaps = pa.array([5.0] * 10 + [None] * 90)
    table = pa.table({"x": gaps, "y": np.linspace(0, 100, 100)})
    plan = Plan(method="idp-cbls", epsilon=1, k=5, guarantee="paper")
    found = _run(table, _schema({"x": NUMBER, "y": NUMBER}), plan).findings
    total = next(f for f in found if f.name == "share without noise" and f.attribute is None)
    assert total.value == pytest.approx(10 / 110)


def test_progress_is_told_attribute_by_attribute() -> None:
    """In rows and in strict releases."""
    seen: list[tuple[str, int, int]] = []
    for promise in ("paper", "strict"):
        _run(
            pa.table({"x": [1.0, 2.0, 3.0], "y": [1.0, 2.0, 3.0]}),
            _schema({"x": NUMBER, "y": NUMBER}, missing="refuse"),
            Plan(**{**STRICT, "guarantee": promise}),
            progress=lambda *step: seen.append(step),
        )
    assert seen == [("masking", 1, 2), ("masking", 2, 2)] * 2


def test_ties_fall_at_random() -> None:
    """Equal values that straddle two clusters go to either, whatever order the rows came in."""
    table = pa.table({"x": [10.0] * 2 + [50.0] * 2 + [90.0] * 2, "w": list(range(6))})
    schema = _schema({"x": NUMBER, "w": {"type": "integer", "role": "insensitive"}})
    plan = Plan(method="dp-um", epsilon=1e6, k=3)
    first = set()
    for seed in range(40):
        run = Run(randomness=Randomness.seeded(seed))
        data = plan.spec.run(table, schema, plan, run).tables["data"].to_pylist()
        first.add(min((row["x"], row["w"]) for row in data if row["w"] in (2, 3))[1])
    assert first == {2, 3}
