from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing import run
from sherd.auditing.case.case import Limits
from sherd.auditing.case.open_case import check_order, read_row_map
from sherd.auditing.catalogue import CATALOGUE
from sherd.auditing.verdict.measure import Label, Measure, Skipped
from sherd.auditing.verdict.verdict import decide
from sherd.auditing.verdict.verdict_points import NOISE
from sherd.errors import FormatError, TableError, UsageError
from sherd.release.private_files import row_map_of
from sherd.verifying.check import Check

if TYPE_CHECKING:
    from pathlib import Path

    from sherd.auditing.verdict.audit_result import Audit
    from sherd.release.bundle import Release

QUICK = Limits(attacked=120, modelled=400, compared=300, queries=20, triples=3, runs=200)
SCHEMA = sherd.Schema.from_data(
    {
        "missing_values": ["?"],
        "attributes": {
            "id": {"role": "identifier"},
            "age": {"type": "integer", "domain": ["0", "100"]},
            "pay": {"type": "number", "domain": ["0", "5000"], "grid": "0.01"},
            "job": {"type": "category", "values": ["clerk", "nurse", "pilot"]},
            "ill": {"type": "boolean", "role": "sensitive"},
            "region": {"type": "category", "values": ["n", "s"], "role": "insensitive"},
        },
    }
)


def table(n: int = 240, seed: int = 0) -> pa.Table:
    """People whose pay and job depend on their age."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 80, n)
    pay = np.round(age * 40 + rng.normal(0, 100, n), 2).clip(0, 5000)
    job = np.array(["clerk", "nurse", "pilot"])[(age // 25).clip(0, 2)]
    return pa.table(
        {
            "id": [str(i) for i in range(n)],
            "age": age,
            "pay": pay,
            "job": [None if i % 20 == 0 else j for i, j in enumerate(job)],
            "ill": rng.random(n) < 0.3,
            "region": np.array(["n", "s"])[rng.integers(0, 2, n)],
        }
    )


def release_of(method: str = "idp-ls", **more: Any) -> Release:
    """A release of the table."""
    if method not in ("dp", "idp"):
        more = {"k": 4, **more}
    if method in ("idp-ls", "idp-cbls"):
        more = {"guarantee": "paper", **more}
    return sherd.protect(table(), SCHEMA, sherd.Plan(method=method, epsilon=1.0, **more))


@pytest.fixture(scope="module")
def audit() -> Audit:
    """One full audit."""
    return run.audit(table(), release_of("idp-cbls"), limits=QUICK)


def test_every_number_explains_itself(audit: Audit) -> None:
    """Each measure has an interval or says exact, a basis, a meaning and a label."""
    assert len(audit.measures) > 30
    for measure in audit.measures:
        data = measure.as_data()
        assert data["meaning"]
        assert data["basis"]
        assert data["label"] in ("publishable", "internal")
        exact = measure.low is None and measure.high is None
        assert not exact or "exact" in measure.basis or "records" in measure.basis
        assert measure.low is None or measure.low <= measure.value + 1e-12
        assert measure.high is None or measure.value <= measure.high + 1e-12


def test_only_what_needs_no_original_is_publishable() -> None:
    """Measures that look at the original are internal, without exception."""
    publishable = {code for code, spec in CATALOGUE.items() if spec.label is Label.PUBLISHABLE}
    assert publishable == {
        "ncp", "discernibility", "unique", "prosecutor", "marketer", "epsilon-frozen",
        "epsilon-recomputed", "homogeneity", "background", "least-confidence", "skewness",
        "t-closeness", "entropy-diversity", "recursive-diversity", "largest-share",
        "beta-likeness",
    }  # fmt: skip


def test_pairs_are_needed_and_missed_by_name(audit: Audit, tmp_path: Path) -> None:
    """Without a row map, measures of pairs are left out with the reason; others are there."""
    assert "linkage" in audit
    folder = release_of("idp-cbls").save(tmp_path / "out")
    found = run.audit(table(), folder, limits=QUICK, alternatives=False)
    left = {skipped.spec.code: skipped.reason for skipped in found.skipped}
    assert {"mean-sse", "linkage", "unchanged", "interval"} <= set(left)
    assert all("--row-map" in left[code] for code in ("mean-sse", "linkage"))
    assert "marginals-2" in found
    assert "membership" in found
    assert found.verdict.promise == "fails"
    assert any(check.name.startswith("file ") for check in found.checks)


def test_row_map_gives_the_pairs_back(tmp_path: Path) -> None:
    """A saved release with its row map is audited as the one in memory."""
    made = release_of("idp-ls")
    folder = made.save(tmp_path / "out", format="csv")
    lines = [f"{i},{row}" for i, row in enumerate(made.order.tolist())]
    rows = tmp_path / "map.csv"
    rows.write_text("released_row,input_row\n" + "\n".join(reversed(lines)) + "\n")
    found = run.audit(table(), folder, row_map=rows, limits=QUICK, alternatives=False)
    direct = run.audit(table(), made, limits=QUICK, alternatives=False)
    assert found["mean-sse"].value == pytest.approx(direct["mean-sse"].value)
    assert found["linkage"].value == pytest.approx(direct["linkage"].value)


def test_dropped_records_keep_their_pairs() -> None:
    """Where the schema drops records, the release's order still points at the right ones."""
    schema = replace(SCHEMA, missing=sherd.tables.schema.Missing.DROP)
    made = sherd.protect(table(), schema, sherd.Plan(method="dp", epsilon=1e6))
    found = run.audit(table(), made, limits=QUICK, alternatives=False)
    assert found.rows < 240
    assert found["unchanged"].parts["age"] == 1


def test_strict_releases_have_no_rows() -> None:
    """Ordered centroids are audited through draws; row measures are left out by name."""
    schema = replace(SCHEMA, missing=sherd.tables.schema.Missing.REFUSE)
    full = table().drop_columns(["job"])
    schema = replace(schema, attributes={n: a for n, a in schema.attributes.items() if n != "job"})
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=4, guarantee="strict")
    found = run.audit(full, sherd.protect(full, schema, plan), limits=QUICK, alternatives=False)
    assert "marginals-1" in found
    assert "queries" in found
    assert {s.spec.code for s in found.skipped} >= {"linkage", "unchanged"}
    assert found.verdict.promise in ("holds", "untested")  # too few clusters to see the noise
    assert [check.name for check in found.artefact] == [NOISE]


def test_holdout_is_the_control() -> None:
    """With a hold-out table it is the yardstick and the control group."""
    made = release_of("idp-cbls")
    found = run.audit(table(), made, holdout=table(seed=3), limits=QUICK, alternatives=False)
    assert "hold-out" in found["membership"].basis
    assert "hold-out" in found["marginals-1"].against
    assert "hold-out" in found["forest-accuracy"].basis


def test_any_table_can_be_audited_with_a_schema() -> None:
    """A release by another tool, without a manifest, needs the schema and promises nothing."""
    other = table().drop_columns(["id"])
    found = run.audit(table(), other, schema=SCHEMA, limits=QUICK, alternatives=False)
    assert found.verdict.promise == "none"
    assert {s.spec.code for s in found.skipped} >= {"membership", "linkage"}
    assert "--holdout" in next(s.reason for s in found.skipped if s.spec.code == "membership")
    with pytest.raises(UsageError, match="needs a schema"):
        run.audit(table(), other)


def test_map_holds_the_plan_and_its_alternatives(audit: Audit) -> None:
    """The release's own plan is one point of the map, marked, among the other methods."""
    names = [place.name for place in audit.pictures.places]
    assert names[0] == "idp-cbls"
    assert set(names) == {"idp-cbls", "dp", "idp", "dp-um", "idp-ls", "dp-graph"}
    assert [p.this for p in audit.pictures.places].count(True) == 1


def test_owners_of_a_joint_release() -> None:
    """Owners and their columns add the insiders' attack; unknown columns are refused."""
    made = release_of("idp-cbls")
    owners = {"hospital": ["age", "ill"], "bank": ["pay", "job"]}
    found = run.audit(table(), made, owners=owners, limits=QUICK, alternatives=False)
    assert set(found["insider"].parts) == set(owners)
    with pytest.raises(UsageError, match="not released"):
        run.audit(table(), made, owners={"x": ["id"]}, limits=QUICK, alternatives=False)


def test_audits_can_be_repeated() -> None:
    """The same seed gives the same numbers, another seed other samples."""
    made = release_of("dp-um")
    first, again, other = (
        run.audit(table(), made, seed=seed, limits=QUICK, alternatives=False).by_code
        for seed in (1, 1, 2)
    )
    # Forests add up in the order their threads finish: equal but for the last bits.
    assert {c: m.value for c, m in first.items()} == pytest.approx(
        {c: m.value for c, m in again.items()}
    )
    assert first["linkability"].value != other["linkability"].value or (
        first["queries"].value != other["queries"].value
    )


def test_release_of_another_table_is_refused() -> None:
    """Other columns, other row counts, other untouched values: refused, and the reason said."""
    made = release_of("dp-um")
    with pytest.raises(TableError, match="differ in their number of rows"):
        run.audit(table(100), made)
    with pytest.raises(TableError, match="lacks columns of the release"):
        run.audit(table().drop_columns(["pay"]), made)
    with pytest.raises(TableError, match="'region' is released as it is"):
        run.audit(table(seed=8), made)
    odd = table().set_column(2, "pay", pa.array(["x"] * 240))
    with pytest.raises(TableError, match="cannot be read as number"):
        run.audit(odd, made)


def test_damaged_releases_are_refused() -> None:
    """An empty release and one without its columns are refused by name."""
    made = release_of("dp-um")
    empty = replace(made, tables={"data": made.tables["data"].slice(0, 0)})
    with pytest.raises(TableError, match="release is empty"):
        run.audit(table(), empty)
    less = replace(made, tables={"data": made.tables["data"].drop_columns(["pay"])})
    with pytest.raises(TableError, match="release lacks columns"):
        run.audit(table(), less)
    bare = replace(made, manifest={k: v for k, v in made.manifest.items() if k != "schema"})
    with pytest.raises(FormatError, match="no schema"):
        run.audit(table(), bare)


def test_odd_tables_are_audited_all_the_same() -> None:
    """Constant, wholly and partly missing columns break nothing; a handful of rows is refused."""
    n = 40
    odd = pa.table(
        {
            "same": np.full(n, 3.0),
            "gone": pa.array([None] * n, pa.string()),
            "some": [None if i % 3 else float(i % 9) for i in range(n)],
            "word$<b>": ["$a", "b"] * (n // 2),
        }
    )
    number = {"type": "number", "domain": ["0", "10"]}
    schema = sherd.Schema.from_data(
        {
            "attributes": {
                "same": number,
                "gone": {"type": "category", "values": ["x", "y"]},
                "some": number,
                "word$<b>": {"type": "category", "values": ["$a", "b"]},
            }
        }
    )
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=2)
    found = run.audit(odd, sherd.protect(odd, schema, plan), limits=QUICK)
    assert found["unchanged"].parts["gone"] == 0
    few = odd.slice(0, 6)
    with pytest.raises(TableError, match="too small to audit"):
        run.audit(few, sherd.protect(few, schema, plan))


def test_targets_are_checked() -> None:
    """A target that is not released is refused with the nearest name."""
    with pytest.raises(UsageError, match="did you mean 'ill'"):
        run.audit(table(), release_of("dp-um"), target="il")


def test_row_maps_are_checked(tmp_path: Path) -> None:
    """A row map must be one, of this release, and of rows."""
    path = tmp_path / "map.csv"
    path.write_text("a,b\n0,1\n")
    with pytest.raises(FormatError, match="not a row map"):
        read_row_map(path)
    path.write_text("released_row,input_row\n0,x\n")
    with pytest.raises(FormatError, match="not row numbers"):
        read_row_map(path)
    odd = tmp_path / "map of 2024"
    odd.write_text("released_row,input_row\n0,1\n1,0\n")
    assert read_row_map(odd).tolist() == [1, 0]
    path.write_text("released_row,input_row\n7,1\n")
    with pytest.raises(FormatError, match="do not run from 0"):
        read_row_map(path)
    with pytest.raises(TableError, match="does not fit"):
        check_order(np.array([0, 0]), None, 2)
    kept = np.array([1, 3])
    assert check_order(np.array([3, 1]), kept, 2).tolist() == [1, 0]
    path.write_text("released_row,input_row\n0,0\n")
    schema = replace(SCHEMA, missing=sherd.tables.schema.Missing.REFUSE)
    kept_names = {n: a for n, a in schema.attributes.items() if n in ("age", "ill")}
    schema = replace(schema, attributes=kept_names)
    small = table().select(["age", "ill"])
    plan = sherd.Plan(method="dp-um", epsilon=1.0, k=4, guarantee="strict")
    made = sherd.protect(small, schema, plan)
    with pytest.raises(UsageError, match="no rows that a row map"):
        run.audit(small, made, row_map=path)


def test_a_row_map_of_classes_is_read_and_checked(tmp_path: Path) -> None:
    """Attacks on classes need none; one of another table is refused all the same."""
    schema = replace(SCHEMA, attributes={n: SCHEMA[n] for n in ("age", "pay", "job", "ill")})
    small = table().select(["age", "pay", "job", "ill"])
    made = sherd.protect(small, schema, sherd.Plan(method="mondrian", k=5))
    path = tmp_path / "classes.map"
    path.write_bytes(row_map_of(made))
    assert run.audit(small, made, row_map=path, limits=QUICK, alternatives=False).rows == len(small)
    path.write_text("released_row,input_row\n0,1\n1,1\n")
    with pytest.raises(TableError, match="does not fit"):
        run.audit(small, made, row_map=path, limits=QUICK, alternatives=False)


def test_the_verb_loads_nothing_until_it_is_called() -> None:
    """`sherd.audit` is a function whatever was imported first; the room itself is light."""
    for first in (
        "import sherd; assert callable(sherd.audit)",
        "import sherd.auditing.catalogue, sherd; assert callable(sherd.audit)",
    ):
        subprocess.run([sys.executable, "-c", first], check=True)
    heavy = "import sys, sherd; assert not {'numpy', 'pyarrow', 'sklearn'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", heavy], check=True)


def test_the_call_is_the_audit() -> None:
    """Calling the package audits, by keyword as documented."""
    found = sherd.audit(
        original=table(), release=release_of("dp-um"), limits=QUICK, alternatives=False
    )
    assert found.title.startswith("dp-um (epsilon = 1, k = 4")
    with pytest.raises(KeyError):
        found["no such measure"]


def measure(code: str, value: float, baseline: float = 0.0) -> Measure:
    """A measure with a narrow interval."""
    return Measure(
        spec=CATALOGUE[code], value=value, low=value, high=value, baseline=baseline, basis=""
    )


@pytest.mark.parametrize(("value", "risk"), [(0.5, "serious"), (0.1, "noticeable"), (0.01, "low")])
def test_risk_is_the_worst_attack(value: float, risk: str) -> None:
    """The verdict's risk follows its thresholds, on what lies above chance."""
    found = decide({"linkage": measure("linkage", value)}, (), {})
    assert found.risk == risk
    calm = decide({"linkability": measure("linkability", value, baseline=value)}, (), {})
    assert calm.risk == "low"


@pytest.mark.parametrize(
    ("left", "lacks", "risk"),
    [
        ("linkage", "pairs", "low in part"),
        ("membership", "control", "low in part"),
        ("reconstruction", "pairs", "low"),
        ("linkage", "rows", "low"),
        ("mean-sse", "pairs", "low"),
    ],
)
def test_what_was_not_tried_is_not_called_low(left: str, lacks: str, risk: str) -> None:
    """Only an attack of outsiders that could have been tried keeps a risk from being low."""
    gap = Skipped(spec=CATALOGUE[left], reason="needs something", lacks=lacks)
    calm = {"inference": measure("inference", 0.5, baseline=0.5)}
    found = decide(calm, (), {}, (), (gap,))
    assert found.risk == risk
    assert ("not tried" in found.headline) == (risk != "low")
    bad = decide({"inference": measure("inference", 0.5)}, (), {}, (), (gap,))
    assert bad.risk == "serious", "a gap hides no success"
    assert decide({}, (), {}, (), (gap,)).risk == "unknown"


def test_rows_that_kept_their_order_need_no_map(tmp_path: Path) -> None:
    """A release stamped as in the original's order is linked by it."""
    plan = sherd.Plan(method="dp", epsilon=1.0)
    kept = sherd.protect(table(), SCHEMA, plan, settings=sherd.Settings(keep_order=True))
    folder = kept.save(tmp_path / "kept")
    found = run.audit(table(), folder, limits=QUICK, alternatives=False)
    direct = run.audit(table(), kept, limits=QUICK, alternatives=False)
    assert found["linkage"].value == pytest.approx(direct["linkage"].value)
    assert found["mean-sse"].value == pytest.approx(direct["mean-sse"].value)
    assert "linkage" not in {skipped.spec.code for skipped in found.skipped}


def test_verdict_without_attacks_or_promise() -> None:
    """Nothing measured is unknown, never safe; a failed check is a broken promise."""
    found = decide({}, (), {})
    assert (found.risk, found.usefulness, found.promise) == ("unknown", "unknown", "none")
    failed = Check(name="file data.csv", passed=False, detail="changed")
    broken = decide({}, (failed,), {"notion": "k-anonymity", "k": 5})
    assert broken.promise == "fails"
    assert "file data.csv" in broken.points[0].text
    assert decide({}, (), {"notion": "k-anonymity", "k": 5}).promise == "untested"


def test_promise_fails_on_each_kind_of_evidence() -> None:
    """An exact loss, frozen runs, or (for differential privacy) real runs refute a claim."""
    claim = {"notion": "individual-differential-privacy", "epsilon": 1.0}
    pure = {"notion": "differential-privacy", "epsilon": 1.0}
    over = {"loss-factor": measure("loss-factor", 3.0)}
    assert decide(over, (), claim).promise == "fails"
    endless = {"loss-factor": measure("loss-factor", float("inf"))}
    assert "without bound" in decide(endless, (), claim).points[0].text
    assert decide({"epsilon-frozen": measure("epsilon-frozen", 1.2)}, (), claim).promise == "fails"
    real = {
        "epsilon-frozen": measure("epsilon-frozen", 0.9),
        "epsilon-recomputed": measure("epsilon-recomputed", 1.2),
    }
    assert decide(real, (), claim).promise == "untested", "an account alone is not the release"
    seen = Check(name=NOISE, passed=True, detail="consistent with the plan")
    assert decide(real, (), claim, artefact=(seen,)).promise == "holds"
    assert decide(real, (), pure).promise == "fails"
