"""Generalisation and bucketisation, the baselines."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from sherd.errors import InfeasibleError, PlanError, SchemaError
from sherd.guarantees import KAnonymity, LDiversity
from sherd.release.plan import Plan
from sherd.verifying import verify_contents as verify

if TYPE_CHECKING:
    from sherd.tables.schema import Schema


@pytest.mark.parametrize("more", [{"k": 5}, {"k": 5, "l": 3}, {"k": 4, "boxes": "cells"}])
def test_mondrian_keeps_rows_and_generalises_quasi_identifiers(
    make: Any, people: Any, people_schema: Schema, more: dict[str, Any]
) -> None:
    """Sensitive values stay beside their record, towns become nodes, ages ranges."""
    table = people(300)
    made = make(table, people_schema, method="mondrian", **more)
    checks = verify(made.outcome.tables, made.manifest)
    assert not [check for check in checks if check.passed is False]
    order = made.outcome.order
    assert sorted(order) == list(range(300))
    assert made.data["ill"].to_pylist() == table["ill"].take(pa.array(order)).to_pylist()
    towns = {"Ulm", "Kiel", "Passau", "Bremen", "South", "North", "*"}
    assert set(made.data["town"].to_pylist()) <= towns
    classes = Counter(zip(*(made.data[n].to_pylist() for n in ("age", "sex", "town")), strict=True))
    assert min(classes.values()) >= more["k"]
    assert len(classes) > 4


def test_mondrian_promises_what_was_asked(people_schema: Schema) -> None:
    """K alone warns of homogeneity; with l it is l-diversity too."""
    k = Plan(method="mondrian", k=5).guarantee(people_schema)
    assert k.notion == KAnonymity(k=5)
    assert "homogeneity" in k.words()
    both = Plan(method="mondrian", k=5, l=2).guarantee(people_schema)
    assert both.notion == LDiversity(l=2, k=5)
    assert "homogeneity" not in both.words()


def test_more_records_in_a_class_than_there_are(
    make: Any, people: Any, people_schema: Schema
) -> None:
    """K above the number of records is infeasible, also after suppression."""
    with pytest.raises(InfeasibleError, match="fewer records than one class must hold"):
        make(people(30), people_schema, method="mondrian", k=31)
    table = people(30).set_column(3, "ill", pa.array(["flu"] * 28 + ["cold", "cut"]))
    with pytest.raises(InfeasibleError, match="fewer records than one class must hold"):
        make(table, people_schema, method="mondrian", k=5, l=2, suppress=True, most_suppressed=1)
    made = make(table, people_schema, method="mondrian", k=4, l=2, suppress=True, most_suppressed=1)
    assert made.outcome.findings[-1].value == 26


def test_mondrian_needs_no_sensitive_attribute_for_k_alone(make: Any, schema_of: Any) -> None:
    """k-anonymity speaks of quasi-identifiers only; l asks for a sensitive one."""
    schema = schema_of({"a": {"type": "integer"}})
    table = pa.table({"a": list(range(40))})
    assert make(table, schema, method="mondrian", k=4).data.num_rows == 40
    with pytest.raises(SchemaError, match="needs a sensitive"):
        make(table, schema, method="mondrian", k=4, l=2)


def test_a_taxonomy_is_cut_at_its_branches_first(make: Any, schema_of: Any) -> None:
    """With k rows for each branch but not for each leaf, the branches are released."""
    paths = [["a1", "A", "*"], ["b1", "B", "*"], ["a2", "A", "*"], ["b2", "B", "*"]]
    schema = schema_of({"x": {"type": "category", "taxonomy": paths}})
    table = pa.table({"x": ["a1"] * 3 + ["a2"] * 2 + ["b1"] * 2 + ["b2"] * 3})
    data = make(table, schema, method="mondrian", k=5).data
    assert Counter(data["x"].to_pylist()) == {"A": 5, "B": 5}


def test_wide_codes_are_split_by_sorting(make: Any, schema_of: Any) -> None:
    """A cell with few rows and a wide range of codes is cut as well as any other."""
    schema = schema_of({"a": {"type": "integer"}, "b": {"type": "integer"}})
    n = 400
    table = pa.table({"a": [i * 7919 % n for i in range(n)], "b": [i * 31 % n for i in range(n)]})
    made = make(table, schema, method="mondrian", k=3)
    assert made.outcome.findings[1].value < 6


def test_anatomy_releases_two_tables_that_agree(
    make: Any, people: Any, people_schema: Schema
) -> None:
    """Quasi-identifiers as they were, and for every bucket its sensitive values with counts."""
    table = people(200)
    made = make(table, people_schema, method="anatomy", l=3)
    checks = verify(made.outcome.tables, made.manifest)
    assert not [check for check in checks if check.passed is False]
    quasi, sensitive = made.outcome.tables["quasi-identifiers"], made.outcome.tables["sensitive"]
    names = ["age", "sex", "town"]
    assert quasi.column_names == ["bucket", *names]
    assert sensitive.column_names == ["bucket", "ill", "count"]
    before = Counter(zip(*(table[n].to_pylist() for n in names), strict=True))
    assert Counter(zip(*(quasi[n].to_pylist() for n in names), strict=True)) == before
    assert sum(sensitive["count"].to_pylist()) == 200
    promise = Plan(method="anatomy", l=3).guarantee(people_schema)
    assert promise.notion == LDiversity(l=3)
    assert "record by record" in promise.words()


def test_anatomy_with_suppression_and_names_that_collide(make: Any, schema_of: Any) -> None:
    """Suppressed records are counted for the owner; 'count' cannot be a sensitive attribute."""
    schema = schema_of({"a": {"type": "integer"}, "s": {"type": "text", "role": "sensitive"}})
    table = pa.table({"a": list(range(20)), "s": ["x"] * 15 + list("abcde")})
    with pytest.raises(InfeasibleError, match="no release with l = 2 exists"):
        make(table, schema, method="anatomy", l=2)
    made = make(table, schema, method="anatomy", l=2, suppress=True, most_suppressed=1)
    told = made.outcome.findings[-1]
    assert told.value == 10
    assert told.meaning.startswith("WARNING: 50 % left out of 20: their sensitive values are too")
    promise = Plan(method="anatomy", l=2, suppress=True).guarantee(schema)
    assert "the sensitive values they share are too frequent" in promise.words()
    assert "missing or outside" not in promise.words()
    clash = schema_of({"a": {"type": "integer"}, "count": {"type": "text", "role": "sensitive"}})
    with pytest.raises(SchemaError, match="called 'count'"):
        Plan(method="anatomy", l=2).guarantee(clash)


def test_a_measured_sensitive_attribute_needs_bins_for_l_only(make: Any, schema_of: Any) -> None:
    """k-anonymity does not tell sensitive values apart; diversity does, by bins."""
    schema = schema_of({"a": {"type": "integer"}, "s": {"type": "number", "role": "sensitive"}})
    table = pa.table({"a": list(range(20)), "s": [float(i) for i in range(20)]})
    made = make(table, schema, method="mondrian", k=4)
    assert not [c for c in verify(made.outcome.tables, made.manifest) if c.passed is False]
    assert "bins" not in Plan(method="mondrian", k=4).guarantee(schema).words()
    with pytest.raises(PlanError, match="has no bins"):
        make(table, schema, method="mondrian", k=4, l=2)
