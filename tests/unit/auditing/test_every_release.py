"""Every release can be audited, and no verdict is better than what its method says of it."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.case.case import Limits, OwnFindings
from sherd.auditing.verdict.significance import NOTICEABLE, SERIOUS
from sherd.auditing.verdict.verdict_points import NOISE
from sherd.release.method import DIRECTORY, REAL_SPEND, Finding, find

RECORDED = Path(__file__).parents[2] / "recorded"
QUICK = Limits(attacked=40, runs=200, modelled=100, queries=6, triples=2, rounds=0, compared=100)
ROWS = 120
LEVELS = {"low": 0, "low in part": 0, "unknown": 0, "noticeable": 1, "serious": 2}
PLANS: dict[str, dict[str, Any]] = {
    "dp": {"epsilon": 1.0},
    "idp": {"epsilon": 1.0},
    "dp-um": {"epsilon": 1.0, "k": 5},
    "idp-ls": {"epsilon": 1.0, "k": 5, "guarantee": "paper"},
    "idp-cbls": {"epsilon": 1.0, "k": 5, "guarantee": "paper"},
    "slice": {"l": 2},
    "mondrian": {"k": 5},
    "anatomy": {"l": 2},
    # Four illnesses as frequent as each other allow a looseness of 4 in the table, but never in a
    # random half of it, which the audit releases once more: in that some are more frequent.
    "fragment": {"looseness": 2, "constraints": {"constraints": [["age", "ill"]]}},
    "diffgen": {"epsilon": 4.0, "h": 3, "class_attribute": "ill"},
    "dp-graph": {"epsilon": 2.0, "delta": 1e-6},
}
SCHEMA = sherd.Schema.from_data(
    {
        "missing": "recode",
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "100"], "recode": "50"},
            "pay": {"type": "number", "domain": ["0", "900"], "grid": "1", "recode": "0"},
            "ill": {
                "type": "category", "values": list("abcd"), "role": "sensitive", "recode": "a"
            },
        },
    }
)  # fmt: skip


def table(rows: int = ROWS) -> pa.Table:
    """Ages, pay with an infinite cell, illnesses spread evenly."""
    rng = np.random.default_rng(3)
    pay = np.rint(rng.gamma(2, 100, rows).clip(0, 900))
    pay[7] = math.inf
    return pa.table(
        {
            "age": rng.integers(0, 101, rows),
            "pay": pay,
            "ill": np.array(list("abcd"))[rng.permutation(rows) % 4],
        }
    )


@pytest.mark.parametrize("method", [name for name in DIRECTORY if name != "arbdistdp"])
def test_no_verdict_is_better_than_the_methods_own_findings(method: str) -> None:
    """For a release of every method, one of whose cells was infinite."""
    if method == "fragment":
        pytest.importorskip("ortools")
    made = sherd.protect(table(), SCHEMA, sherd.Plan(method=method, **PLANS[method]), ledger=None)
    found = sherd.audit(table(), made, limits=QUICK, alternatives=False)
    own = OwnFindings.of(made.findings)
    least = 2 if own.risk >= SERIOUS else 1 if own.risk >= NOTICEABLE else 0
    assert LEVELS[found.verdict.risk] >= least
    if own.spent > PLANS[method].get("epsilon", math.inf) * (1 + 1e-6):
        assert found.verdict.promise == "fails"
    tested = [check.name for check in found.artefact]
    assert (NOISE in tested) == (find(method).traits.noise is not None)
    assert {"clamped", "recoded", "dropped", "left-out"} <= set(found.by_code)
    assert found["recoded"].parts["pay"] == pytest.approx(1 / ROWS)
    assert not found.verdict.untried, "nothing is lacking: pairs are known, or there are none"
    assert {"membership", "nearest-ratio", "singling-out", "inference"} <= set(found.by_code)


def test_own_findings_take_the_worst() -> None:
    """The largest risk with its name, and what is spent, each by itself."""
    own = OwnFindings.of(
        [
            Finding(name="told", value=0.3, meaning="", risk=0.3),
            Finding(name="bare", value=0.9, meaning="", risk=0.9),
            Finding(name=REAL_SPEND, value=7.0, meaning=""),
        ]
    )
    assert own == OwnFindings(risk=0.9, name="bare", spent=7.0)
    assert own.worst(OwnFindings(risk=0.1, name="x", spent=8.0)).spent == 8.0


def people_of(kind: str) -> pa.Table:
    """Made-up people who fit the schema of a recorded release, as many as it has."""
    manifest = sherd.Release.load(RECORDED / kind).manifest
    rng = np.random.default_rng(1)
    rows = int(manifest["facts"]["rows"])
    columns: dict[str, Any] = {}
    for name, attribute in manifest["schema"]["attributes"].items():
        if attribute.get("domain"):
            low, high = (float(end) for end in attribute["domain"])
            columns[name] = np.rint(rng.uniform(low, high, rows)).astype(np.int64)
        elif attribute.get("role") == "identifier":
            columns[name] = [f"p{i}" for i in range(rows)]
        elif attribute["type"] == "boolean":
            columns[name] = np.arange(rows) % 2 == 0
        else:
            leaves = [path[0] for path in attribute.get("taxonomy", ())]
            values = attribute.get("values", leaves) or ["x"]
            columns[name] = np.array(values)[np.arange(rows) % len(values)]
    return pa.table(columns)


@pytest.mark.parametrize("kind", ["joint-rows", "joint-columns", "parties"])
def test_joint_releases_are_audited(kind: str) -> None:
    """By rows, by columns and by cells: recorded bundles against people of the same schema."""
    found = sherd.audit(people_of(kind), RECORDED / kind, limits=QUICK, alternatives=False)
    assert found.attributes
    (noise,) = [check for check in found.artefact if check.name == NOISE]
    if kind == "joint-rows":
        assert noise.passed is None
        assert "each owner made clusters" in noise.detail
    else:
        assert noise.passed is not True, "these are other people"


def test_clamped_cells_are_told() -> None:
    """Ages of adults under a domain that ends at ten."""
    data = SCHEMA.as_data()
    data["attributes"]["age"]["domain"] = ["0", "10"]
    data["attributes"]["age"]["recode"] = "5"
    schema = sherd.Schema.from_data(data)
    made = sherd.protect(table(), schema, sherd.Plan(method="dp", epsilon=1.0), ledger=None)
    found = sherd.audit(table(), made, limits=QUICK, alternatives=False)
    outside = float(np.mean(np.array(table()["age"]) > 10))
    assert found["clamped"].parts["age"] == pytest.approx(outside)
    assert any("were clamped (age" in point.text for point in found.verdict.points)


@pytest.mark.slow
def test_a_wide_table_is_audited_in_bounded_time() -> None:
    """300 columns: pairs, secrets and rows are sampled, and each number says so."""
    import time

    rng = np.random.default_rng(0)
    names = [f"x{i}" for i in range(300)]
    wide = pa.table({name: rng.integers(0, 50, 1_000) for name in names})
    one = {"type": "integer", "domain": ["0", "50"]}
    schema = sherd.Schema.from_data({"attributes": dict.fromkeys(names, one)})
    made = sherd.protect(wide, schema, sherd.Plan(method="dp-um", epsilon=1.0, k=20), ledger=None)
    start = time.process_time()
    found = sherd.audit(wide, made)
    assert time.process_time() - start < 240
    assert found["marginals-2"].sampled
    assert "2000 of 44850" in found["marginals-2"].basis
    assert len(found["inference"].parts) == 20


def test_the_audit_names_no_method() -> None:
    """What it must know of a method the method declares: masking, drawing, a test of its noise."""
    import ast

    import sherd.auditing

    for path in Path(sherd.auditing.__path__[0]).rglob("*.py"):
        literals = {
            node.value
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Constant)
        }
        assert not literals & set(DIRECTORY), path.name


def test_declared_masking_is_one_the_audit_knows() -> None:
    """And every method with an epsilon names the test of its noise."""
    from sherd.auditing.epsilon.mechanism import CENTRES, REACHES

    for name in DIRECTORY:
        traits = find(name).traits
        if traits.masking is not None:
            assert traits.masking["centre"] in CENTRES
            assert traits.masking["reach"] in REACHES
        charged = any(parameter.name == "epsilon" for parameter in find(name).parameters)
        assert charged == (traits.noise is not None), name
