"""Linkage by row structure: what no noise hides, on made tables, and on those of the README."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing import run
from sherd.auditing.attacks.cluster_linkage import alone, structure_of, with_known
from sherd.auditing.case.case import Case, Limits
from sherd.auditing.epsilon.mechanism import Mechanism
from sherd.auditing.verdict.measure import Skipped
from sherd.auditing.verdict.significance import STRUCTURE
from sherd.auditing.verdict.verdict import decide

README = Path(__file__).parents[4] / "README.md"
QUICK = Limits(attacked=300, rounds=8)


def case_of(
    table: Any, schema: sherd.Schema, plan: sherd.Plan, monkeypatch: pytest.MonkeyPatch
) -> Case:
    """A fresh release as the audit sees it, without a control group."""
    monkeypatch.setattr(run, "_with_control", lambda case, _table, _manifest: (case, ""))
    made = sherd.protect(table, schema, plan)
    given = run._Given(original=table, release=made, limits=QUICK)
    return run._open(given, made.manifest).case


def small(attributes: int = 6, rows: int = 900) -> tuple[pa.Table, sherd.Schema]:
    """Independent measured attributes."""
    rng = np.random.default_rng(5)
    names = [f"x{i}" for i in range(attributes)]
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                n: {"type": "number", "domain": ["0", "1"], "grid": "0.001"} for n in names
            }
        }
    )
    return pa.table({n: np.rint(rng.random(rows) * 1000) / 1000 for n in names}), schema


def test_the_structure_by_hand() -> None:
    """Two clusters of three; a value that lies in both belongs to each with its share."""
    original = np.array([1.0, 2, 2, 2, 2, 3, np.nan])
    released = np.array([9.0, 9, 9, 4, 4, 4, np.nan])
    mechanism = Mechanism(centre="mean", reach="domain", k=3, epsilon=1.0, low=0.0, high=10.0)
    one = structure_of(original, released, mechanism)
    assert one is not None
    assert one.unit.tolist() == [0, 2, 2, 2, 2, 1, 3]
    assert one.members.toarray().tolist() == [[1, 0], [0, 1], [0.5, 0.5]]
    assert one.group.tolist() == [1, 1, 1, 0, 0, 0, 2]
    assert one.centres.tolist() == pytest.approx([5 / 3, 7 / 3])
    few = replace(mechanism, k=4)
    assert structure_of(original, released, few) is None


def test_noise_does_not_hide_the_structure(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where distances link few rows, clusters link most."""
    from sherd.auditing.attacks.linkage_attack import by_distance

    table, schema = small(rows=2_000)
    case = case_of(table, schema, sherd.Plan(method="dp-um", epsilon=1.0, k=40), monkeypatch)
    (found,) = with_known(case)
    assert found.value > 0.7
    assert by_distance(case)[0].value < 0.3


def test_rows_without_structure_are_not_linked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each column shuffled by itself: the attack is at chance. Known pairs do not help."""
    table, schema = small()
    case = case_of(table, schema, sherd.Plan(method="dp-um", epsilon=1.0, k=20), monkeypatch)
    rng = np.random.default_rng(0)
    torn = replace(case, released={n: rng.permutation(c) for n, c in case.released.items()})
    for found in (*with_known(torn), *alone(torn)):
        assert found.value < 0.03


def test_values_masked_one_by_one_have_no_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    """The attack has no meaning for dp."""
    table, schema = small(rows=200)
    case = case_of(table, schema, sherd.Plan(method="dp", epsilon=1.0), monkeypatch)
    assert not case.clustered
    assert with_known(case) == alone(case) == []


def test_no_release_in_clusters_is_low_unless_the_attack_failed() -> None:
    """Left out for want of pairs, the risk is unknown, whatever else was tried."""
    table, schema = small(rows=300)
    made = sherd.protect(table, schema, sherd.Plan(method="dp-um", epsilon=1.0, k=20))
    quick = Limits(attacked=50, runs=200, modelled=200, queries=10, triples=2, rounds=0)
    audited = sherd.audit(table, made, alternatives=False, limits=quick)
    assert audited.verdict.risk == "serious"
    others = {code: one for code, one in audited.by_code.items() if code not in STRUCTURE}
    calm = {c: replace(m, value=m.baseline or 0.0, low=0.0) for c, m in others.items()}
    spec = audited["cluster-linkage-known"].spec
    gap = Skipped(spec=spec, reason="", lacks="matched")
    assert decide(calm, (), {}, ()).risk == "low"
    left = decide(calm, (), {}, (), (gap,))
    assert left.risk == "unknown"
    assert "structure of the rows" in left.headline


def numbers(name: str) -> list[int]:
    """The shares that the README states of a table."""
    (row,) = [line for line in README.read_text().splitlines() if line.startswith(f"| {name}")]
    return [int(n) for n in re.findall(r"(\d+) %", row.split("|", 2)[2])]


@pytest.mark.parametrize(("name", "title", "k"), [("wine", "Wine", 50), ("adult", "Adult", 100)])
def test_the_readme_states_what_the_attack_achieves(
    name: str, title: str, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within eight points (three standard deviations of 300 trials), and 70 % at least."""
    table, schema = sherd.datasets.load(name), sherd.datasets.schema(name)
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=k)
    case = case_of(table, schema, plan, monkeypatch)
    attacks = [with_known, alone] if name == "wine" else [with_known]
    found = [attack(case)[0].value for attack in attacks]
    assert min(found) >= 0.7
    assert found == pytest.approx([n / 100 for n in numbers(title)], abs=0.08)
