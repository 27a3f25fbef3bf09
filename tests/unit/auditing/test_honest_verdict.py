"""Lights that are earned: baselines of models, the method's own findings, every method audited."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.case.case import Limits, OwnFindings
from sherd.auditing.case.method_drawing import book_of
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Measure
from sherd.auditing.verdict.verdict import decide
from sherd.errors import FormatError

QUICK = Limits(attacked=50, runs=200, modelled=300, queries=10, triples=2, rounds=0, compared=300)


def model(**more: Any) -> Measure:
    """A forest as good as one trained on originals."""
    given: dict[str, Any] = {"value": 0.93, "low": 0.92, "baseline": 0.93, "basis": "", **more}
    return Measure(spec=CATALOGUE["forest-accuracy"], **given)


@pytest.mark.parametrize(
    ("measure", "tone", "said"),
    [
        (model(floor=0.7), "good", "is right"),
        (model(floor=0.94), "bad", "no better than always guessing the same"),
        (model(floor=0.7, caution="it may have seen them"), "plain", "it may have seen them"),
    ],
)
def test_a_model_is_good_only_above_the_majority(measure: Measure, tone: str, said: str) -> None:
    """And where it was not tested on what it was trained on."""
    (point,) = decide({measure.code: measure}, (), {}).points[-1:]
    assert point.tone == tone
    assert said in point.text


@pytest.mark.parametrize(("own", "risk"), [(0.99, "serious"), (0.1, "noticeable"), (0.01, "low")])
def test_the_risk_is_never_better_than_the_methods_own_findings(own: float, risk: str) -> None:
    """What protect warns of, the audit does not call low."""
    calm = Measure(spec=CATALOGUE["membership"], value=0.0, low=0.0, baseline=0.0, basis="")
    found = decide({"membership": calm}, (), {}, own=OwnFindings(risk=own, name="advantage"))
    assert found.risk == risk
    assert any("own account" in point.text for point in found.points) == (risk != "low")


def test_a_sliced_table_is_as_risky_as_its_method_says(tmp_path: Any) -> None:
    """From the release in memory, and from its folder by a shadow."""
    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(5)]
    table = pa.table(
        {n: rng.integers(0, 1000, 600) for n in names} | {"ill": rng.choice(list("abcdef"), 600)}
    )
    ill = {"type": "category", "values": list("abcdef"), "role": "sensitive"}
    schema = sherd.Schema.from_data(
        {
            "attributes": {n: {"type": "integer", "domain": ["0", "1000"]} for n in names}
            | {"ill": ill}
        }
    )
    made = sherd.protect(table, schema, sherd.Plan(method="slice", l=2))
    (said,) = [float(f.value) for f in made.findings if f.name == "membership advantage"]
    assert said > 0.2
    folder = made.save(tmp_path / "out")
    found = sherd.audit(table, made, limits=QUICK, alternatives=False)
    assert found.verdict.risk == "serious"
    found = sherd.audit(table, folder, limits=QUICK, alternatives=False)
    assert found.verdict.risk in ("noticeable", "serious")  # of half of the table
    assert any("own account" in point.text for point in found.verdict.points)


def test_what_is_spent_is_said_of_this_table() -> None:
    """The verdict says what the release spends as protect does, not what a shadow of it spends.

    One record lies far from all others: a half of the table without it spends more.
    """
    values = np.random.default_rng(0).integers(500, 1000, 300)
    values[0] = 0
    table = pa.table({"a": values})
    schema = sherd.Schema.from_data(
        {"attributes": {"a": {"type": "integer", "domain": ["0", "1000"]}}}
    )
    plan = sherd.Plan(method="idp-ls", epsilon=1.0, k=10, guarantee="paper")
    made = sherd.protect(table, schema, plan, ledger=None)
    (spent,) = (f.value for f in made.findings if f.name == "epsilon with clusters recomputed")
    for seed in range(3):
        found = sherd.audit(table, made, limits=QUICK, alternatives=False, seed=seed)
        (said,) = (p.text for p in found.verdict.points if "the centroids spend" in p.text)
        assert said.endswith(f"spend {spent:.3g}.")


def test_generalised_records_are_audited() -> None:
    """diffgen: records are drawn from intervals and groups, its counts tested against the plan."""
    table = sherd.datasets.load("adult").slice(0, 600)
    plan = sherd.Plan(method="diffgen", epsilon=2.0, class_attribute="income")
    made = sherd.protect(table, sherd.datasets.schema("adult"), plan)
    found = sherd.audit(table, made, limits=QUICK, alternatives=False)
    assert "age" in found.attributes
    assert found.verdict.promise == "holds"
    assert any("noise halved would be found" in check.detail for check in found.artefact)


def test_labels_without_a_book_by_hand() -> None:
    """Intervals, groups of a taxonomy, missing cells; anything else is refused."""
    number = book_of(["[0, 2.5)", "[1, 9] or (missing)"], {"type": "number"})
    assert number["[0, 2.5)"] == {"low": "0", "high": "2.5"}
    assert number["[1, 9] or (missing)"] == {"low": "1", "high": "9"}
    group = {"type": "category", "taxonomy": [["a", "x", "*"], ["b", "x", "*"], ["c", "y", "*"]]}
    assert book_of(["x"], group)["x"] == {"values": ["a", "b"], "missing": False}
    assert book_of(["(missing)"], group)["(missing)"] == {"values": [], "missing": True}
    with pytest.raises(FormatError, match="neither an interval"):
        book_of(["many"], {"type": "integer"})
