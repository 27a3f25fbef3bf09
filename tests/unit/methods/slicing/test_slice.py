"""Slicing, from a plan to the released table."""

from __future__ import annotations

import datetime as dt
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sherd.errors import (
    InfeasibleError,
    InternalError,
    MissingPartError,
    PlanError,
    SchemaError,
)
from sherd.guarantees import LDiversity, NoGuarantee
from sherd.methods.compiled import compiled
from sherd.methods.slicing import bucket_pipeline as pipeline
from sherd.methods.slicing import membership_advantage as membership
from sherd.methods.slicing import slice_run as slicer
from sherd.methods.slicing.group_conditions import Conditions
from sherd.methods.slicing.sensitive_values import Sensitive
from sherd.release.plan import Plan
from sherd.verifying import verify_contents as verify

if TYPE_CHECKING:
    from sherd.tables.schema import Schema

Make = Any


def failures(made: Any) -> list[Any]:
    """The checks of a release that fail."""
    checks = verify(made.outcome.tables, made.manifest)
    assert any(check.passed for check in checks)
    return [check for check in checks if check.passed is False]


@pytest.mark.parametrize(
    "more",
    [
        {"columns": 2},
        {"columns": 3},
        {"columns": 3, "regroup": True},
        {"groups": [["age"], ["town"], ["sex", "ill"]], "l": 2},
        {"groups": [["age"], ["sex", "town", "ill"]], "l": 2, "regroup": True, "min_frequency": 8},
        {"columns": 2, "min_frequency": 20},
        {"columns": 3, "scope": "records"},
        {"columns": 2, "discretise": "frequency", "clustering": "clara", "tries": 2},
    ],
)
def test_columns_keep_their_values_and_every_check_passes(
    make: Make, people: Make, people_schema: Schema, more: dict[str, Any]
) -> None:
    """Cells are only moved or generalised: each column's combinations are those of the table."""
    table = people(300)
    made = make(table, people_schema, method="slice", **{"l": 3, **more})
    assert not failures(made)
    assert made.data.num_rows == 300
    assert made.data.column_names[0] == "bucket"
    assert made.outcome.order is None
    if "min_frequency" not in more:
        for fields in made.manifest["facts"]["columns"]:
            before = Counter(zip(*(table[f].to_pylist() for f in fields), strict=True))
            after = Counter(zip(*(made.data[f].to_pylist() for f in fields), strict=True))
            assert before == after


def test_columns_are_permuted_and_rows_shuffled(
    make: Make, people: Make, people_schema: Schema
) -> None:
    """Few rows of the release are rows of the table, and two runs differ."""
    table = people(400)
    one = make(table, people_schema, method="slice", l=3, columns=4, seed=1).data
    two = make(table, people_schema, method="slice", l=3, columns=4, seed=2).data
    assert one["age"].to_pylist() != two["age"].to_pylist()
    names = ["age", "sex", "town", "ill"]
    original = Counter(zip(*(table[n].to_pylist() for n in names), strict=True))
    released = Counter(zip(*(one[n].to_pylist() for n in names), strict=True))
    assert (original & released).total() < 300


def test_the_guarantee_says_l_diversity_and_what_is_left_aside(people_schema: Schema) -> None:
    """It is l-diversity, never differential privacy, and membership is named as not covered."""
    promise = Plan(method="slice", l=3).guarantee(people_schema)
    assert promise.notion == LDiversity(l=3)
    assert not promise.notion.is_differential_privacy
    assert "not differential privacy" in promise.words()
    assert "in the table" in promise.words()
    records = Plan(method="slice", l=3, scope="records").guarantee(people_schema)
    assert "no record has" in records.words()
    paper = Plan(method="slice", l=3, scope="records", beta=0).guarantee(people_schema)
    assert isinstance(paper.notion, NoGuarantee)
    other = Plan(method="slice", l=2, sensitive=["sex"]).guarantee(people_schema)
    assert "ill: sensitive in the schema" in other.words()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"beta": 2, "scope": "records"}, "beta"),
        ({"beta": 0}, "whatever the buckets weigh"),
        ({"regroup": True, "scope": "records"}, "regrouping needs"),
        ({"columns": 9}, "more columns than attributes"),
        ({"alpha": 4}, "too large"),
        ({"sensitive": ["illl"]}, "did you mean 'ill'"),
        ({"sensitive": ["ill", "ill"]}, "named twice"),
        ({"bins": {"age": 3}}, "not sensitive"),
        ({"bins": {"ill": 3}}, "takes no bins"),
        ({"groups": [["age", "sex"], ["sex", "town", "ill"]], "min_frequency": 5}, "several col"),
        ({"groups": [["age", "sex"], []]}, "empty"),
    ],
)
def test_plans_that_do_not_fit(
    people_schema: Schema, parameters: dict[str, Any], message: str
) -> None:
    """Every wrong combination is refused before any data is read."""
    with pytest.raises(PlanError, match=message):
        Plan(method="slice", **{"l": 3, **parameters}).guarantee(people_schema)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"a": {"type": "integer"}}, "needs a sensitive"),
        ({"s": {"type": "text", "role": "sensitive"}}, "needs a quasi-identifier"),
        (
            {"bucket": {"type": "text"}, "s": {"type": "text", "role": "sensitive"}},
            "called 'bucket'",
        ),
    ],
)
def test_schemas_that_lack_something(
    schema_of: Make, attributes: dict[str, Any], message: str
) -> None:
    """A schema needs a sensitive attribute, a quasi-identifier and room for the buckets."""
    with pytest.raises(SchemaError, match=message):
        Plan(method="slice", l=2).guarantee(schema_of(attributes))


def test_an_infeasible_l_is_told_without_counts(
    make: Make, people: Make, people_schema: Schema
) -> None:
    """Half of the rows have one value: neither which l would do nor how many rows is told."""
    table = people(100)
    table = table.set_column(3, "ill", pa.array(["flu"] * 50 + ["cold", "burn"] * 25))
    with pytest.raises(InfeasibleError, match="at most 1/3 for every value of 'ill'") as told:
        make(table, people_schema, method="slice", l=3)
    assert "2" not in str(told.value)
    assert "50" not in str(told.value)
    assert "flu" not in str(told.value)


def test_one_class_only_is_infeasible_even_with_suppression(
    make: Make, people: Make, people_schema: Schema
) -> None:
    """Where all records share the sensitive value nothing helps."""
    table = people(20).set_column(3, "ill", pa.array(["flu"] * 20))
    for suppress in (False, True):
        with pytest.raises(InfeasibleError, match="no release with l = 2 exists"):
            make(table, people_schema, method="slice", l=2, suppress=suppress)


def test_suppression_leaves_out_the_fewest_records(
    make: Make, people: Make, people_schema: Schema
) -> None:
    """Half of the rows share a value: l = 3 needs 25 of 100 to go, and 75 stay diverse."""
    table = people(100)
    table = table.set_column(3, "ill", pa.array(["flu"] * 50 + ["cold", "burn"] * 25))
    made = make(table, people_schema, method="slice", l=3, suppress=True, most_suppressed=1)
    assert made.data.num_rows == 75
    assert not failures(made)
    told = {finding.name: finding.value for finding in made.outcome.findings}
    assert told["suppressed records"] == 25
    assert "suppressed" not in str(made.manifest["facts"])


def test_a_quasi_identifier_beside_the_sensitive_one_limits_l(
    make: Make, people: Make, people_schema: Schema
) -> None:
    """One sex has one illness only: alpha = 2 is refused and says who shares the column."""
    sex = ["F"] * 30 + ["M"] * 70
    ill = ["burn"] * 28 + ["flu", "cold"] + ["flu", "cold", "cut"] * 23 + ["flu"]
    table = people(100).set_column(3, "ill", pa.array(ill)).set_column(1, "sex", pa.array(sex))
    groups = [["age", "town"], ["sex", "ill"]]
    with pytest.raises(InfeasibleError, match="agree in sex"):
        make(table, people_schema, method="slice", l=2, groups=groups, suppress=False)
    made = make(
        table, people_schema, method="slice", l=2, groups=groups, suppress=True, most_suppressed=1
    )
    assert not failures(made)


def test_a_least_frequency_above_the_table_is_infeasible(
    make: Make, people: Make, people_schema: Schema
) -> None:
    """No value can occur more often than there are rows."""
    with pytest.raises(InfeasibleError, match="least frequency"):
        make(people(50), people_schema, method="slice", l=2, min_frequency=51)


def test_an_attribute_in_two_columns(make: Make, people: Make, people_schema: Schema) -> None:
    """It is released twice, permuted independently, and every check holds."""
    groups = [["age", "sex"], ["town", "sex", "ill"]]
    for scope in ("any", "records"):
        made = make(people(300), people_schema, method="slice", l=2, groups=groups, scope=scope)
        assert made.data.column_names == ["bucket", "age", "sex", "town", "sex.2", "ill"]
        assert made.manifest["facts"]["attributes"]["sex.2"] == "sex"
        assert not failures(made)


def test_missing_cells_are_values_of_their_own(make: Make, schema_of: Make) -> None:
    """Missing quasi-identifiers group together, a missing sensitive value counts as a value."""
    rng = np.random.default_rng(2)
    age = [None if i % 7 == 0 else int(v) for i, v in enumerate(rng.integers(20, 60, 210))]
    ill = [(None, "flu", "cold")[i % 3] for i in range(210)]
    schema = schema_of(
        {
            "age": {"type": "integer"},
            "town": {"type": "category", "values": ["x", "y"]},
            "ill": {"type": "category", "role": "sensitive", "values": ["flu", "cold"]},
        },
        missing_values=["?"],
    )
    town = ["?" if i % 10 == 0 else "xy"[i % 2] for i in range(210)]
    table = pa.table({"age": age, "town": town, "ill": ill})
    for more in ({}, {"min_frequency": 10}, {"regroup": True}):
        made = make(table, schema, method="slice", l=3, columns=3, **more)
        assert not failures(made)
        assert made.data["ill"].null_count == 70


def test_several_sensitive_attributes_are_all_diverse(make: Make, schema_of: Make) -> None:
    """Each of them is held to 1/l, with and without regrouping, in all three methods."""
    rng = np.random.default_rng(4)
    table = pa.table(
        {
            "age": rng.integers(0, 50, 400),
            "ill": rng.choice(list("abcdef"), 400),
            "job": rng.choice(list("uvwxyz"), 400),
        }
    )
    schema = schema_of(
        {
            "age": {"type": "integer"},
            "ill": {"type": "text", "role": "sensitive"},
            "job": {"type": "text", "role": "sensitive"},
        }
    )
    for more in ({"method": "slice"}, {"method": "slice", "regroup": True}, {"method": "anatomy"}):
        made = make(table, schema, l=4, **more)
        names = [check.name for check in verify(made.outcome.tables, made.manifest) if check.passed]
        assert {"ill: 4-diversity", "job: 4-diversity"} <= set(names)
        assert not failures(made)
    assert not failures(make(table, schema, method="mondrian", k=5, l=4))
    assert not failures(make(table, schema, method="slice", l=4, columns=2, scope="records"))


@pytest.mark.parametrize(
    ("kind", "domain", "bins"),
    [
        ("integer", ["0", "99"], 5),
        ("number", ["0", "99"], [20, 40.5, 60, 80]),
        ("date", ["2020-01-01", "2020-04-09"], 5),
        ("date", None, ["2020-01-21", "2020-02-10", "2020-03-01", "2020-03-21"]),
        ("datetime", None, ["2020-01-21", "2020-02-10T00:00:00", "2020-03-01", "2020-03-21"]),
    ],
)
def test_measured_sensitive_attributes_count_by_bins(
    make: Make, schema_of: Make, kind: str, domain: Any, bins: Any
) -> None:
    """Neighbouring values are one sensitive value: no bin fills more than 1/l of a bucket."""
    rng = np.random.default_rng(6)
    number = rng.permutation(np.arange(200) % 100)
    cells: Any = number.astype(float) if kind == "number" else number
    if kind == "date":
        cells = [dt.date(2020, 1, 1) + dt.timedelta(days=int(v)) for v in number]
    if kind == "datetime":
        start = dt.datetime(2020, 1, 1, 6, tzinfo=dt.UTC)
        cells = [start + dt.timedelta(days=int(v)) for v in number]
    attribute = {"type": kind, "role": "sensitive"} | ({"domain": domain} if domain else {})
    schema = schema_of({"age": {"type": "integer"}, "pay": attribute})
    table = pa.table({"age": rng.integers(0, 50, 200), "pay": cells})
    made = make(table, schema, method="slice", l=4, bins={"pay": bins})
    assert not failures(made)
    assert len(made.manifest["facts"]["bins"]["pay"]) == 4
    assert (
        "declared bins" in Plan(method="slice", l=4, bins={"pay": bins}).guarantee(schema).words()
    )


@pytest.mark.parametrize(
    ("bins", "error", "message"),
    [
        (None, PlanError, "has no bins"),
        ({"pay": 3}, SchemaError, "no domain"),
        ({"pay": "x"}, PlanError, "not valid"),
        ({"pay": [3, 2]}, PlanError, "rising"),
        ({"pay": ["x"]}, PlanError, "an edge"),
    ],
)
def test_bins_that_cannot_be_used(schema_of: Make, bins: Any, error: Any, message: str) -> None:
    """A measured sensitive attribute needs edges that rise, or a domain to divide."""
    schema = schema_of({"age": {"type": "integer"}, "pay": {"type": "number", "role": "sensitive"}})
    with pytest.raises(error, match=message):
        Plan(method="slice", l=2, bins=bins).guarantee(schema)


def test_values_outside_are_clamped_and_others_renamed(make: Make, schema_of: Make) -> None:
    """What the schema clamps does not leave its domain in a release."""
    schema = schema_of(
        {
            "age": {"type": "integer", "domain": ["20", "60"]},
            "day": {"type": "date", "domain": ["2020-01-01", "2020-12-31"]},
            "town": {"type": "category", "values": ["x", "else"], "other": "else"},
            "ill": {"type": "text", "role": "sensitive"},
        }
    )
    table = pa.table(
        {
            "age": [5, 30, 99, 40] * 10,
            "day": [dt.date(2019, 1, 1), dt.date(2020, 5, 5)] * 20,
            "town": ["x", "y", "z", "x"] * 10,
            "ill": ["a", "b"] * 20,
        }
    )
    data = make(table, schema, method="slice", l=2).data
    assert (min(data["age"].to_pylist()), max(data["age"].to_pylist())) == (20, 60)
    assert min(data["day"].to_pylist()) == dt.date(2020, 1, 1)
    assert set(data["town"].to_pylist()) == {"x", "else"}


def test_insensitive_attributes_are_a_column_of_their_own(make: Make, schema_of: Make) -> None:
    """They are released as they are, permuted in their bucket, and named as not covered."""
    schema = schema_of(
        {
            "age": {"type": "integer"},
            "w": {"type": "number", "role": "weight"},
            "ill": {"type": "text", "role": "sensitive"},
        }
    )
    table = pa.table({"age": [1, 2, 3, 4] * 5, "w": [0.5] * 20, "ill": ["a", "b"] * 10})
    made = make(table, schema, method="slice", l=2)
    assert made.manifest["facts"]["columns"][-1] == ["w"]
    assert not failures(made)


def test_without_generalisation_the_owner_is_warned_about_membership(
    make: Make, schema_of: Make
) -> None:
    """Nearly unique quasi-identifiers tell members from others; a least frequency mends it."""
    rng = np.random.default_rng(9)
    table = pa.table(
        {
            "a": rng.integers(0, 1000, 1000),
            "b": rng.integers(0, 1000, 1000),
            "ill": rng.choice(list("pqrs"), 1000),
        }
    )
    schema = schema_of(
        {
            "a": {"type": "integer"},
            "b": {"type": "integer"},
            "ill": {"type": "text", "role": "sensitive"},
        }
    )
    bare = make(table, schema, method="slice", l=3, columns=2).outcome.findings[-1]
    assert bare.name == "membership advantage"
    assert bare.value > 0.9
    assert bare.meaning.startswith("WARNING")
    kept = make(table, schema, method="slice", l=3, columns=2, min_frequency=50).outcome.findings[
        -1
    ]
    assert kept.value < 0.1
    assert "WARNING" not in kept.meaning
    small = make(table.slice(0, 6), schema, method="slice", l=2, columns=2).outcome.findings
    assert [finding.name for finding in small] == ["tuple-partition rate"]


def test_the_attack_of_one_score_for_all_has_no_advantage() -> None:
    """Equal scores cannot be parted by a threshold."""
    assert membership.best_advantage(np.ones(5), np.ones(5)) == 0.0


def test_a_bucket_that_is_not_diverse_would_be_a_bug() -> None:
    """The last count before release refuses what the partition should never make."""
    sensitive = Sensitive(
        names=("s",), codes=np.array([[0], [0], [1], [2]], dtype=np.int32), sizes=(3,)
    )
    with pytest.raises(InternalError, match="not diverse"):
        pipeline.check_buckets(
            np.array([0, 0, 1, 1]), np.zeros(4, dtype=np.int32), 1, sensitive, Conditions(share=0.5)
        )


def test_all_quasi_identifiers_equal_make_one_bucket(make: Make, schema_of: Make) -> None:
    """Nothing to split by: one bucket, still diverse; regrouping makes smaller ones."""
    schema = schema_of({"a": {"type": "integer"}, "s": {"type": "text", "role": "sensitive"}})
    table = pa.table({"a": [1] * 40, "s": list("abcd") * 10})
    one = make(table, schema, method="slice", l=3, regroup=False)
    assert len(set(one.data["bucket"].to_pylist())) == 1
    many = make(table, schema, method="slice", l=3, regroup=True)
    assert len(set(many.data["bucket"].to_pylist())) == 13
    assert not failures(many)


def test_suppression_that_does_not_settle_is_told(
    make: Make, people: Make, people_schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Generalising again after each suppression ends with an error, not in an endless loop."""
    monkeypatch.setattr(slicer, "ROUNDS", 1)
    table = people(100)
    table = table.set_column(3, "ill", pa.array(["flu"] * 50 + ["cold", "burn"] * 25))
    with pytest.raises(InfeasibleError, match="do not settle"):
        make(table, people_schema, method="slice", l=3, suppress=True, most_suppressed=1)


def test_without_numba_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing optional part is named with its remedy."""
    monkeypatch.setitem(sys.modules, "numba", None)
    with pytest.raises(MissingPartError, match=r"sherd\[slicing\]"):
        compiled(len)
