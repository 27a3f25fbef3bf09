"""The exact account is exact: protect, the audit and the definition say the same."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.case.case import Limits
from sherd.auditing.epsilon.mechanism import Mechanism, exact_loss, scales
from sherd.auditing.promise_check import masking_of, table_loss
from sherd.auditing.run import _Given, _open
from sherd.release.method import REAL_SPEND

METHODS = ("dp-um", "idp-ls", "idp-cbls")


def by_definition(values: Any, mechanism: Mechanism) -> float:
    """Every record changed into every value of the domain; clusters and means as defined."""
    noise = scales(np.sort(values), mechanism)

    def centres(table: list[float]) -> list[float]:
        ordered, k = sorted(table), mechanism.k
        count = len(ordered) // k
        found = []
        for j in range(count):
            part = ordered[j * k : (j + 1) * k if j + 1 < count else None]
            if mechanism.centre == "trimmed":
                part = [part[1], *part[1:-1], part[-2]]
            found.append(sum(part))
        return found

    before, worst = centres(list(values)), 0.0
    for place in range(len(values)):
        for other in range(int(mechanism.low), int(mechanism.high) + 1):
            changed = [*values[:place], float(other), *values[place + 1 :]]
            cost = 0.0
            for x, y, b in zip(before, centres(changed), noise, strict=True):
                cost += 0.0 if x == y else abs(x - y) / b if b > 0 else np.inf
            worst = max(worst, cost)
    return worst


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("seed", range(4))
def test_the_loss_is_that_of_the_worst_substitution(method: str, seed: int) -> None:
    """Over all records and all values of a small domain, with ties and a remainder."""
    masking = masking_of({"method": method})
    rng = np.random.default_rng(seed)
    mechanism = Mechanism(**masking, k=3, epsilon=1.0, low=0.0, high=9.0, step=1.0)  # type: ignore[arg-type]
    values = [float(v) for v in rng.integers(0, 10, 11)]
    assert exact_loss(np.sort(values), mechanism) == pytest.approx(by_definition(values, mechanism))


TABLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "narrow": (
        np.arange(60) % 7 + 10**11,
        {"type": "integer", "domain": ["0", "1000000000000"]},
    ),
    "dates": (
        [date(2020, 1, 1) + timedelta(days=(7 * i) % 300) for i in range(60)],
        {"type": "date", "domain": ["2020-01-01", "2021-12-31"]},
    ),
    "decimals": (
        np.round((np.arange(60) * 37 % 100) / 10, 1),
        {"type": "number", "domain": ["0", "10"], "grid": "0.1"},
    ),
}


@pytest.mark.parametrize("method", ["idp-ls", "idp-cbls"])
@pytest.mark.parametrize("kind", TABLES)
def test_protect_and_audit_say_the_same(method: str, kind: str) -> None:
    """Shifts below a billionth of the domain and domains of dates are counted by both."""
    values, attribute = TABLES[kind]
    table, schema = (
        pa.table({"x": values}),
        sherd.Schema.from_data({"attributes": {"x": attribute}}),
    )
    plan = sherd.Plan(method=method, epsilon=1.0, k=4, guarantee="paper")
    made = sherd.protect(table, schema, plan, ledger=None)
    (said,) = (float(f.value) for f in made.findings if f.name == REAL_SPEND)
    opened = _open(_Given(original=table, release=made, limits=Limits()), made.manifest)
    (found,) = table_loss(opened.case, plan.as_data())
    assert found.value == pytest.approx(said, rel=1e-9)


def test_what_leaves_as_it_is_spends_no_epsilon() -> None:
    """A column of 0 and 1 whose clusters are all of one value: frozen scales called it free."""
    table = pa.table({"x": [0] * 30 + [1] * 30, "y": np.arange(60)})
    domain = {"type": "integer", "domain": ["0", "1"]}
    wide = {"type": "integer", "domain": ["0", "100"]}
    schema = sherd.Schema.from_data({"attributes": {"x": domain, "y": wide}})
    plan = sherd.Plan(method="idp-cbls", epsilon=1.0, k=5, guarantee="paper")
    made = sherd.protect(table, schema, plan, ledger=None)
    told = {f.attribute: f for f in made.findings if f.name == "loss factor"}
    assert told["x"].value == float("inf")
    assert told["x"].meaning == "published as it is: no ε"
    quick = Limits(attacked=30, runs=200, modelled=60, queries=5, triples=1, rounds=0, compared=60)
    found = sherd.audit(table, made, limits=quick, alternatives=False)
    assert found["loss-factor"].parts["x"] == float("inf")
    assert any("Published as it is: no ε (x)" in point.text for point in found.verdict.points)
    assert found.verdict.promise == "fails"
