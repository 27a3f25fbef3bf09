"""What classes and buckets give away, counted by hand and on Adult."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sherd
from sherd.auditing.attacks.group_disclosure import GroupedSecret
from sherd.auditing.attacks.matching import groups_of, matches
from sherd.auditing.case.case import Case, Limits
from sherd.auditing.case.method_drawing import FragmentedRelease
from sherd.auditing.case.record_drawing import BucketisedRelease, SlicedRelease
from sherd.tables.number_scale import Scale
from sherd.tables.schema import Role
from sherd.verifying import diversity_conditions as conditions

QUICK = Limits(
    attacked=1_000, runs=200, modelled=300, queries=10, triples=2, rounds=0, compared=300
)


def test_groups_by_hand() -> None:
    """Two groups of three: one with one value, one with two."""
    one = GroupedSecret(
        values=np.array([0, 0, 0, 0, 1, 1]), groups=np.array([0, 0, 0, 1, 1, 1]), ordered=False
    )
    found = one.measured(one.values)
    assert found["homogeneity"] == pytest.approx(1 / 2)
    assert found["background"] == pytest.approx(1)
    assert found["least-confidence"] == pytest.approx((1 + 2 / 3) / 2)
    assert found["skewness"] == pytest.approx((1.5 + 2) / 2)
    assert found["t-closeness"] == pytest.approx(1 / 3)
    assert found["entropy-diversity"] == pytest.approx(1)
    assert found["recursive-diversity"] == 1
    assert found["largest-share"] == 1
    assert found["beta-likeness"] == pytest.approx(1)


def test_conditions_are_measured_as_the_verifier_holds_releases_against_them() -> None:
    """On random groups, by the definitions that share no code with the audit."""
    rng = np.random.default_rng(1)
    for _ in range(40):
        values, groups = rng.integers(0, 6, 90), np.sort(rng.integers(0, 5, 90))
        groups = np.unique(groups, return_inverse=True)[1]
        values = np.unique(values, return_inverse=True)[1]
        one = GroupedSecret(values=values, groups=groups, ordered=False)
        found = one.measured(values)
        counted = list(
            conditions.grouped_counts(groups.tolist(), values.tolist(), [1] * 90).values()
        )
        table: Counter[Any] = sum(counted, Counter())
        lowest = min(map(conditions.entropy_diversity, counted))
        assert found["entropy-diversity"] == pytest.approx(lowest)
        share = max(max(group.values()) / group.total() for group in counted)
        assert found["largest-share"] == pytest.approx(share)
        gain = max(
            n / group.total() / (table[v] / 90) - 1 for group in counted for v, n in group.items()
        )
        assert found["beta-likeness"] == pytest.approx(gain)
        l = int(found["recursive-diversity"])  # noqa: E741 - the field's own name
        assert l >= 1
        assert all(conditions.is_recursive(group, Fraction(3), l) for group in counted)
        assert not all(conditions.is_recursive(group, Fraction(3), l + 1) for group in counted)


def test_ordered_values_are_as_far_as_they_must_be_moved() -> None:
    """Li et al. 2007, section 5: a group at one end of three steps."""
    one = GroupedSecret(
        values=np.array([0, 0, 1, 1, 2, 2]), groups=np.array([0, 0, 1, 1, 1, 1]), ordered=True
    )
    # The group is at 0; a third of the whole must come from 1 and a third from 2, of two steps.
    assert one.measured(one.values)["t-closeness"] == pytest.approx((1 / 3 * 1 + 1 / 3 * 2) / 2)


SCHEMA = sherd.Schema.from_data(
    {
        "attributes": {
            "age": {"type": "integer", "domain": ["0", "100"]},
            "job": {"type": "category", "values": ["p", "q", "r"]},
            "ill": {"type": "category", "values": ["flu", "leg"], "role": "sensitive"},
        }
    }
)


def case_of(**columns: Any) -> tuple[Case, dict[str, Any]]:
    """A case with scales, and people in its numbers; nothing else is looked at."""
    scales = {a.name: Scale(attribute=a, labels=a.labels) for a in SCHEMA}
    people = {
        name: np.array([float(v) if labels is None else labels.index(v) for v in values])
        for name, values in columns.items()
        for labels in [scales[name].labels]
    }
    return Case(schema=SCHEMA, scales=scales, original=people, released=people), people


def test_people_match_buckets_that_hold_all_their_parts() -> None:
    """m(t) by hand: both parts in one bucket, each in another, a range, nowhere."""
    table = pa.table(
        {
            "bucket": [0, 0, 1, 1],
            "age": ["20-29", "30", "30", "40"],
            "job": ["p", "p", "q", "q"],
            "ill": ["flu", "leg", "flu", "flu"],
        }
    )
    release = SlicedRelease(
        table=table,
        bucket="bucket",
        columns=({"age": "age", "job": "job"}, {"ill": "ill"}),
        books={"age": {"20-29": {"low": "20", "high": "29"}}},
        kinds={"age": "integer", "job": "category", "ill": "category"},
    )
    case, people = case_of(
        age=[25, 30, 30, 40], job=["p", "p", "q", "p"], ill=["flu", "leg", "flu", "flu"]
    )
    groups = groups_of(release)
    assert groups is not None
    assert matches(case, people, groups).tolist() == [0.5, 0.5, 1.0, 0.0]


def test_people_match_tables_of_buckets_and_fragments() -> None:
    """The same for two tables tied by a bucket, and for fragments tied by an association."""
    bucketised = BucketisedRelease(
        quasi=pa.table({"bucket": [0, 0], "age": [25, 30]}),
        sensitive=pa.table({"bucket": [0, 0], "ill": ["flu", "leg"], "count": [1, 1]}),
        bucket="bucket",
        count_field="count",
        kinds={"age": "integer", "ill": "category"},
    )
    case, people = case_of(age=[25, 26], ill=["flu", "flu"])
    groups = groups_of(bucketised)
    assert groups is not None
    assert matches(case, people, groups).tolist() == [0.5, 0.0]
    fragmented = FragmentedRelease.of(
        {
            "fragment-1": pa.table({"group_1": [0, 0, 1, 1], "age": [25, 26, 27, 28]}),
            "fragment-2": pa.table({"group_2": [5, 5], "ill": ["flu", "leg"]}),
            "association": pa.table({"group_1": [0, 0, 1, 1], "group_2": [5, None, 5, None]}),
        }
    )
    groups = groups_of(fragmented)
    assert groups is not None
    assert matches(case, people, groups).tolist() == [0.25, 0.25]


def sliced(rows: int) -> tuple[pa.Table, sherd.Schema, sherd.Plan]:
    """Adult with its occupation as the secret, sliced as protect does it by default."""
    data = sherd.datasets.schema("adult").as_data()
    for name, attribute in data["attributes"].items():
        attribute["role"] = "sensitive" if name == "occupation" else "quasi-identifier"
    table = sherd.datasets.load("adult").slice(0, rows)
    return table, sherd.Schema.from_data(data), sherd.Plan(method="slice", l=3)


@pytest.mark.slow  # compiling the method's kernels takes longer than the audit
def test_a_sliced_table_does_not_hide_who_is_in_it() -> None:
    """Matching tells most members; the distance to records drawn from the slices tells nothing."""
    table, schema, plan = sliced(10_000)
    made = sherd.protect(table, schema, plan, ledger=None)
    found = sherd.audit(table, made, limits=QUICK, alternatives=False)
    assert found["membership-match"].value > 0.8
    assert found["membership"].value < 0.2
    assert found.verdict.risk == "serious"


def test_classes_with_one_income_are_counted() -> None:
    """With k = 10 on Adult: more than a third of the people, far more than by chance."""
    table, schema = sherd.datasets.load("adult"), sherd.datasets.schema("adult")
    made = sherd.protect(table, schema, sherd.Plan(method="mondrian", k=10), ledger=None)
    data = made.tables["data"]
    names = [a.name for a in schema if a.role is Role.QUASI_IDENTIFIER]
    classes = data.group_by(names).aggregate([("income", "count_distinct"), ([], "count_all")])
    alone = np.array(classes["income_count_distinct"]) == 1
    share = np.array(classes["count_all"])[alone].sum() / data.num_rows
    few = Limits(attacked=100, runs=200, modelled=200, queries=5, triples=1, rounds=0, compared=200)
    found = sherd.audit(table, made, limits=few, alternatives=False)["homogeneity"]
    assert found.value == pytest.approx(share)
    assert found.value > 1 / 3
    assert (found.baseline or 0) < 0.1
